"""Limits that are set while a run goes on, and how the process at work stands with them."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "limits",
        sa.Column("endpoint_id", sa.INTEGER(), nullable=False),
        sa.Column("operation", sa.TEXT(), nullable=False),
        sa.Column("requests", sa.INTEGER(), nullable=False),
        sa.Column("window_us", sa.INTEGER(), nullable=False),
        sa.Column("concurrent", sa.INTEGER(), nullable=True),
        sa.Column("set_at", sa.INTEGER(), nullable=False),
        sa.CheckConstraint("requests >= 1 AND window_us >= 1 AND concurrent >= 1", name="limits_allow_something"),
        sa.ForeignKeyConstraint(["endpoint_id"], ["endpoints.id"]),
        sa.PrimaryKeyConstraint("endpoint_id", "operation"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "meters",
        sa.Column("endpoint_id", sa.INTEGER(), nullable=False),
        sa.Column("operation", sa.TEXT(), nullable=False),
        sa.Column("used", sa.INTEGER(), nullable=False),
        sa.Column("allowance", sa.INTEGER(), nullable=False),
        sa.Column("throttled", sa.INTEGER(), nullable=False),
        sa.Column("at", sa.INTEGER(), nullable=False),
        sa.ForeignKeyConstraint(["endpoint_id"], ["endpoints.id"]),
        sa.PrimaryKeyConstraint("endpoint_id", "operation"),
        sqlite_with_rowid=False,
    )
