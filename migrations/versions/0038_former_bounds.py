"""What bounds of workers were raised to before the change that is under way: a crash may leave either."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.add_column("loans", sa.Column("least_former", sa.INTEGER()))
    op.add_column("loans", sa.Column("most_former", sa.INTEGER()))
