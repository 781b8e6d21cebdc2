"""Cancellations that are owed, failures that a /retry follows, and what the process at work says of itself."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

REFERENCES = """
    INSERT OR IGNORE INTO secret_names
    SELECT DISTINCT substr(found.value, 5)
    FROM payloads, json_each(CAST(payloads.s3_config AS TEXT)) AS found
    WHERE payloads.s3_config IS NOT NULL AND found.value LIKE 'env:%'
"""


def upgrade() -> None:
    op.add_column("submissions", sa.Column("cancel_at", sa.INTEGER(), nullable=True))
    op.add_column("submissions", sa.Column("cancel_why", sa.TEXT(), nullable=True))
    op.add_column("submissions", sa.Column("failure", sa.BLOB(), nullable=True))
    op.create_index(
        "submissions_to_cancel", "submissions", ["cancel_at"], sqlite_where=sa.text("cancel_at IS NOT NULL")
    )
    op.add_column("runs", sa.Column("pruned_before", sa.INTEGER(), server_default="0", nullable=False))
    op.create_table(
        "vitals",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("name", sa.TEXT(), nullable=False),
        sa.Column("value", sa.BLOB(), nullable=False),
        sa.Column("at", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "secret_names",
        sa.Column("name", sa.TEXT(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        sqlite_with_rowid=False,
    )
    op.execute(REFERENCES)  # submissions of an older program may still echo them
