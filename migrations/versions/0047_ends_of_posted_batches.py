"""Batches of the Batch API: what their requests have taken, how they have ended, and how much room files may have."""

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"


def upgrade() -> None:
    op.add_column("posted_batches", sa.Column("usage", sa.BLOB()))
    op.drop_index("posted_batches_of_run")
    op.create_table(
        "posted_ends",
        sa.Column("state", sa.TEXT(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.Column("completed", sa.INTEGER(), nullable=False),
        sa.Column("failed", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("state"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO posted_ends SELECT state, count(*), sum(completed), sum(failed) FROM posted_batches"
        " WHERE state IN ('cancelled', 'completed', 'expired', 'failed') GROUP BY state"
    )
    op.create_table(
        "posted_storage",
        sa.Column("number", sa.INTEGER(), nullable=False),
        sa.Column("bytes_max", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
