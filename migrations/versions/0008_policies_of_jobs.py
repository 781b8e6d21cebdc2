"""The policy of a job that was reopened with one of its own."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("policy", sa.BLOB(), nullable=True))
