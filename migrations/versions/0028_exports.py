"""The files that runs were exported to."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"


def upgrade() -> None:
    op.create_table(
        "exports",
        sa.Column("path", sa.TEXT(), nullable=False),
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("told", sa.BLOB(), nullable=False),
        sa.Column("exported_at", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("path"),
        sqlite_with_rowid=False,
    )
