"""What was executed in batches of the service is counted apart: a second costs less there."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.add_column("executions", sa.Column("batch_ms", sa.INTEGER(), nullable=False, server_default="0"))
