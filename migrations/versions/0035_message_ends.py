"""How often each target was told, and how often a message to it was given up; so far as the messages are still there."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"

_COUNT = """
    INSERT INTO message_ends (target, result, n)
    SELECT target, result, count(*) FROM (
        SELECT target, iif(told_at IS NULL, 'given_up', 'told') AS result FROM outbox
        WHERE told_at IS NOT NULL OR given_up_at IS NOT NULL
        UNION ALL
        SELECT target, iif(told_at IS NULL, 'given_up', 'told') FROM run_outbox
        WHERE told_at IS NOT NULL OR given_up_at IS NOT NULL
    ) GROUP BY target, result
"""


def upgrade() -> None:
    op.create_table(
        "message_ends",
        sa.Column("target", sa.TEXT(), nullable=False),
        sa.Column("result", sa.TEXT(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("target", "result"),
        sqlite_with_rowid=False,
    )
    op.execute(_COUNT)
