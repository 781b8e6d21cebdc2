"""What was found out about an endpoint outlives the process that did."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("endpoints", sa.Column("learned", sa.BLOB(), nullable=True))
