"""Files of the Batch API, whose contents lie beside the ledger."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.create_table(
        "posted_files",
        sa.Column("number", sa.INTEGER(), nullable=False),
        sa.Column("id", sa.TEXT(), nullable=False),
        sa.Column("owner", sa.TEXT(), nullable=False),
        sa.Column("filename", sa.TEXT(), nullable=False),
        sa.Column("purpose", sa.TEXT(), nullable=False),
        sa.Column("size", sa.INTEGER(), nullable=False),
        sa.Column("created_at", sa.INTEGER(), nullable=False),
        sa.Column("expires_at", sa.INTEGER()),
        sa.CheckConstraint("(purpose = 'batch' OR purpose = 'batch_output')", name="posted_files_purpose_known"),
        sa.PrimaryKeyConstraint("number"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("posted_files_of_owner", "posted_files", ["owner", "number"])
