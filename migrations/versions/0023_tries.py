"""How often the command of a group has failed."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.add_column("groups", sa.Column("tries", sa.INTEGER(), server_default="0", nullable=False))
