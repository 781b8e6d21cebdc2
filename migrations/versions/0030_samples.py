"""How runs, endpoints and the process at work stood, every ten seconds."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    for table, key in (("run_samples", "run_id"), ("endpoint_samples", "endpoint_id"), ("process_totals", "slot")):
        op.create_table(
            table,
            sa.Column(key, sa.INTEGER(), nullable=False),
            sa.Column("step_s", sa.INTEGER(), nullable=False),
            sa.Column("at", sa.INTEGER(), nullable=False),
            sa.Column("body", sa.BLOB(), nullable=False),
            sa.PrimaryKeyConstraint(key, "step_s", "at"),
            sqlite_with_rowid=False,
        )
