"""The bounds of endpoints' workers that were raised for runs."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "loans",
        sa.Column("endpoint_id", sa.INTEGER(), sa.ForeignKey("endpoints.id"), primary_key=True),
        sa.Column("rest_url", sa.TEXT(), nullable=False),
        sa.Column("least_before", sa.INTEGER(), nullable=False),
        sa.Column("most_before", sa.INTEGER(), nullable=False),
        sa.Column("least_raised", sa.INTEGER(), nullable=False),
        sa.Column("most_raised", sa.INTEGER(), nullable=False),
        sa.Column("lent_at", sa.INTEGER(), nullable=False),
    )
