"""Jobs of a run may be sent again to another endpoint: each submission has its own."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.create_table(
        "run_endpoints",
        sa.Column("run_id", sa.INTEGER(), nullable=False),
        sa.Column("endpoint_id", sa.INTEGER(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"]),
        sa.ForeignKeyConstraint(["endpoint_id"], ["endpoints.id"]),
        sa.PrimaryKeyConstraint("run_id", "endpoint_id"),
        sqlite_with_rowid=False,
    )
    op.add_column("submissions", sa.Column("endpoint_id", sa.INTEGER(), server_default="0", nullable=False))
    op.execute("UPDATE submissions SET endpoint_id = coalesce((SELECT endpoint_id FROM jobs WHERE id = job_id), 0)")
    op.drop_index("jobs_claimable", "jobs")
    op.create_index(
        "jobs_claimable", "jobs", ["run_id", "endpoint_id", "due_at"], sqlite_where=sa.text("state = 'queued'")
    )
