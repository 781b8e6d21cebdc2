"""A job may be given something after its troubles."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("escalated", sa.BLOB(), nullable=True))
