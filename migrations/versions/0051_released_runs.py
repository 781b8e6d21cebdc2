"""Which runs are released: whoever takes the place of the process that was asked for it sends no more of them either."""

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"


def upgrade() -> None:
    op.add_column("runs", sa.Column("is_released", sa.INTEGER(), nullable=False, server_default="0"))
