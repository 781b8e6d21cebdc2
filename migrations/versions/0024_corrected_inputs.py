"""Rows whose input was corrected, rows that are dropped, and what rows carry unsent into results."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.create_table(
        "row_metadata",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("job_id", sa.INTEGER(), nullable=False),
        sa.Column("metadata", sa.BLOB(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "job_id"),
        sqlite_with_rowid=False,
    )
    op.add_column("intakes", sa.Column("drops", sa.INTEGER(), server_default="0", nullable=False))
    op.add_column("intake_known", sa.Column("metadata", sa.BLOB()))
    op.add_column("intake_known", sa.Column("input", sa.BLOB()))
    op.add_column("intake_known", sa.Column("packed", sa.INTEGER()))
    op.add_column("intake_known", sa.Column("digest", sa.BLOB()))
