"""When nothing of a batch had ended yet: how fast it goes is reckoned from then, by each process."""

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"


def upgrade() -> None:
    op.add_column("batches", sa.Column("begun_at", sa.INTEGER()))
