"""The worker that executed a job, with its outcome."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("outcomes", sa.Column("worker", sa.TEXT(), nullable=True))
