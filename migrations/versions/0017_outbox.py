"""Notifications, and what has become of them."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("pipeline_id", sa.INTEGER(), nullable=False),
        sa.Column("flow_id", sa.INTEGER(), nullable=True),
        sa.Column("news", sa.TEXT(), nullable=False),
        sa.Column("body", sa.BLOB(), nullable=False),
        sa.Column("owed_at", sa.INTEGER(), nullable=False),
        sa.Column("due_at", sa.INTEGER(), nullable=False),
        sa.Column("tries", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("told_at", sa.INTEGER(), nullable=True),
        sa.Column("given_up_at", sa.INTEGER(), nullable=True),
        sa.Column("problem", sa.TEXT(), server_default="", nullable=False),
        sa.CheckConstraint(
            "(news = 'done' OR news = 'failed' OR news = 'held' OR news = 'late' OR news = 'missed' OR news = 'partial' OR news = 'paused')",
            name="outbox_news_known",
        ),
        sa.CheckConstraint("told_at IS NULL OR given_up_at IS NULL", name="outbox_told_or_given_up"),
        sa.ForeignKeyConstraint(["pipeline_id"], ["pipelines.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "outbox_owed", "outbox", ["due_at"], sqlite_where=sa.text("told_at IS NULL AND given_up_at IS NULL")
    )
    op.create_index("outbox_of_flow", "outbox", ["flow_id"])
