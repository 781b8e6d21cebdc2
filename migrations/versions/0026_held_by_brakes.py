"""Which brake holds a run, and which flows a brake holds."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"


def upgrade() -> None:
    op.add_column("brakes", sa.Column("held_by", sa.BLOB(), nullable=True))
    op.add_column("flows", sa.Column("is_braked", sa.INTEGER(), server_default="0", nullable=False))
