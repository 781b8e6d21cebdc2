"""A checksum of each outcome's output, so that an audit can tell whether it still is what was collected."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("outcomes", sa.Column("checksum", sa.INTEGER(), nullable=True))
