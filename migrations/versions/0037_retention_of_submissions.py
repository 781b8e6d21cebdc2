"""How long the service keeps the result of a submission, where that is less than was agreed for its run: those that left
by /runsync are kept for a minute.
"""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.add_column("submissions", sa.Column("retention_us", sa.INTEGER()))
