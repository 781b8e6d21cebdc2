"""What people are told of single runs."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"


def upgrade() -> None:
    op.create_table(
        "run_outbox",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("news", sa.TEXT(), nullable=False),
        sa.Column("body", sa.BLOB(), nullable=False),
        sa.Column("owed_at", sa.INTEGER(), nullable=False),
        sa.Column("due_at", sa.INTEGER(), nullable=False),
        sa.Column("tries", sa.INTEGER(), server_default="0", nullable=False),
        sa.Column("told_at", sa.INTEGER()),
        sa.Column("given_up_at", sa.INTEGER()),
        sa.Column("problem", sa.TEXT(), server_default="", nullable=False),
        sa.CheckConstraint(
            "(news = 'done' OR news = 'failed' OR news = 'held' OR news = 'partial' OR news = 'stopped')",
            name="run_outbox_news_known",
        ),
        sa.CheckConstraint("told_at IS NULL OR given_up_at IS NULL", name="run_outbox_told_or_given_up"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.PrimaryKeyConstraint("id"),
        sqlite_autoincrement=True,
    )
    unsettled = sa.text("told_at IS NULL AND given_up_at IS NULL")
    op.create_index("run_outbox_owed", "run_outbox", ["due_at"], sqlite_where=unsettled)
    op.create_index("run_outbox_of_run", "run_outbox", ["run_id"])
