"""When a flow may begin, beside the time that it is for."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("flows", sa.Column("due_at", sa.INTEGER(), server_default="0", nullable=False))
