"""What was executed, added up for costs, and how the brakes of runs stand."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"


def upgrade() -> None:
    op.create_table(
        "executions",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("endpoint_id", sa.INTEGER(), nullable=False),
        sa.Column("day", sa.INTEGER(), nullable=False),
        sa.Column("told", sa.INTEGER(), nullable=False),
        sa.Column("total_ms", sa.INTEGER(), nullable=False),
        sa.Column("squares", sa.REAL(), nullable=False),
        sa.Column("untold", sa.INTEGER(), nullable=False),
        sa.Column("failed", sa.INTEGER(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "endpoint_id", "day"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "brakes",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("kept", sa.BLOB(), nullable=True),
        sa.Column("canary", sa.BLOB(), nullable=True),
        sa.Column("continued_at", sa.INTEGER(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.execute(
        """
        INSERT INTO executions (run_id, endpoint_id, day, told, total_ms, squares, untold, failed)
        SELECT j.run_id, j.endpoint_id, j.ended_at / 86400000000, count(*), sum(o.execution_ms),
               sum(o.execution_ms / 1000.0 * o.execution_ms / 1000.0), 0, sum(j.state <> 'succeeded')
        FROM jobs AS j JOIN outcomes AS o ON o.job_id = j.id
        WHERE o.execution_ms IS NOT NULL AND j.ended_at IS NOT NULL
        GROUP BY 1, 2, 3
        """
    )
