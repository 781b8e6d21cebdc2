"""What executions said that failed and were tried again, and the kinds of them."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    op.create_table(
        "failed_executions",
        sa.Column("job_id", sa.INTEGER(), sa.ForeignKey("jobs.id"), nullable=False),
        sa.Column("attempt", sa.INTEGER(), nullable=False),
        sa.Column("at", sa.INTEGER(), nullable=False),
        sa.Column("trouble", sa.TEXT(), nullable=False),
        sa.Column("error_key", sa.INTEGER(), nullable=False),
        sa.Column("message", sa.TEXT(), nullable=False),
        sa.Column("execution_ms", sa.INTEGER()),
        sa.PrimaryKeyConstraint("job_id", "attempt"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "retried_kinds",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("error_key", sa.INTEGER(), nullable=False),
        sa.Column("trouble", sa.TEXT(), nullable=False),
        sa.Column("sample", sa.TEXT(), nullable=False),
        sa.Column("n", sa.INTEGER(), nullable=False),
        sa.Column("total_ms", sa.INTEGER(), nullable=False),
        sa.Column("untold", sa.INTEGER(), nullable=False),
        sa.Column("first_at", sa.INTEGER(), nullable=False),
        sa.Column("last_at", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "error_key"),
        sqlite_with_rowid=False,
    )
