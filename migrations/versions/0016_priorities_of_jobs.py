"""A job may go before others of its run."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("priority", sa.INTEGER(), server_default="0", nullable=False))
    op.add_column("intake_known", sa.Column("priority", sa.INTEGER(), server_default="0", nullable=False))
    op.drop_index("jobs_claimable", "jobs")
    op.create_index(
        "jobs_claimable",
        "jobs",
        ["run_id", "endpoint_id", "due_at", sa.text("priority DESC")],
        sqlite_where=sa.text("state = 'queued'"),
    )
