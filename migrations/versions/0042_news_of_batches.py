"""When the service last said that more of a batch has ended: one of which nothing comes any more is told."""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.add_column("batches", sa.Column("news_at", sa.INTEGER()))
