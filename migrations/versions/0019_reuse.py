"""Results that are taken again."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_table(
        "reusable",
        sa.Column("key", sa.TEXT(), nullable=False),
        sa.Column("job_id", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("key", "job_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("reusable_of_job", "reusable", ["job_id"])
    op.create_table(
        "reused",
        sa.Column("job_id", sa.INTEGER(), nullable=False),
        sa.Column("from_run", sa.TEXT(), nullable=False),
        sa.Column("from_custom_id", sa.TEXT(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    )
