"""Chunks: rows that travel together as one job of the service."""

import sqlalchemy as sa
from alembic import op

revision = "0045"
down_revision = "0044"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("chunk_id", sa.INTEGER()))
    op.add_column("submissions", sa.Column("chunk_rows", sa.INTEGER(), nullable=False, server_default="0"))
    op.create_index("submissions_of_chunk", "submissions", ["chunk_id"], sqlite_where=sa.text("chunk_id IS NOT NULL"))
    op.add_column("jobs", sa.Column("chunk_most", sa.INTEGER()))
