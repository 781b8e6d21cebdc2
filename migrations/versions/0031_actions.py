"""What people have asked of runs, flows and schedules, and by which way.

What was asked by commands that are still kept is taken over; by which way was not kept.
"""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"

_TAKE_OVER = """
    INSERT INTO actions
        (asked_at, asked_by, way, verb, kind, subject_id, subject, options, done_n, command_id, done_at, outcome, is_refused)
    SELECT
        c.asked_at, c.asked_by, 'unknown', c.action,
        CASE WHEN c.run_id IS NOT NULL THEN 'run' WHEN c.endpoint_id IS NOT NULL THEN 'endpoint' ELSE 'ledger' END,
        coalesce(c.run_id, c.endpoint_id), coalesce(r.name, e.endpoint, ''), CAST('{}' AS BLOB),
        nullif(c.progress, 0), c.id, c.done_at, c.outcome, c.is_refused
    FROM commands AS c LEFT JOIN runs AS r ON r.id = c.run_id LEFT JOIN endpoints AS e ON e.id = c.endpoint_id
    WHERE c.action NOT IN ('tick', 'serve', 'release', 'rebind')
    ORDER BY c.id
"""


def upgrade() -> None:
    op.create_table(
        "actions",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("form", sa.TEXT(), nullable=True),
        sa.Column("asked_at", sa.INTEGER(), nullable=False),
        sa.Column("asked_by", sa.TEXT(), nullable=False),
        sa.Column("way", sa.TEXT(), nullable=False),
        sa.Column("verb", sa.TEXT(), nullable=False),
        sa.Column("kind", sa.TEXT(), nullable=False),
        sa.Column("subject_id", sa.INTEGER(), nullable=True),
        sa.Column("subject", sa.TEXT(), nullable=False),
        sa.Column("chosen", sa.TEXT(), nullable=False, server_default=""),
        sa.Column("options", sa.BLOB(), nullable=False),
        sa.Column("asked_n", sa.INTEGER(), nullable=True),
        sa.Column("done_n", sa.INTEGER(), nullable=True),
        sa.Column("command_id", sa.INTEGER(), nullable=True),
        sa.Column("done_at", sa.INTEGER(), nullable=True),
        sa.Column("outcome", sa.TEXT(), nullable=True),
        sa.Column("is_refused", sa.INTEGER(), nullable=False, server_default="0"),
        sa.CheckConstraint("(done_at IS NULL) = (outcome IS NULL)", name="actions_done_have_outcome"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("form"),
        sqlite_autoincrement=True,
    )
    op.create_index("actions_of_command", "actions", ["command_id"], sqlite_where=sa.text("command_id IS NOT NULL"))
    op.create_index("actions_of_subject", "actions", ["kind", "subject_id", "id"])
    op.execute(_TAKE_OVER)
