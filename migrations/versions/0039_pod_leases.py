"""Pods that work for runs, each written down before the service is asked for it, and for how long it was paid."""

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"

STATES = "(state = 'ended' OR state = 'ending' OR state = 'ready' OR state = 'starting' OR state = 'wanted')"
ENDS = "(why = 'done' OR why = 'late' OR why = 'lost' OR why = 'never' OR why = 'refused')"


def upgrade() -> None:
    op.create_table(
        "pod_leases",
        sa.Column("id", sa.INTEGER(), nullable=False),
        sa.Column("run", sa.INTEGER(), nullable=False),
        sa.Column("name", sa.TEXT(), nullable=False),
        sa.Column("service_url", sa.TEXT(), nullable=False),
        sa.Column("rest_url", sa.TEXT(), nullable=False),
        sa.Column("template", sa.BLOB(), nullable=False),
        sa.Column("is_new", sa.INTEGER(), nullable=False),
        sa.Column("state", sa.TEXT(), nullable=False),
        sa.Column("pod", sa.TEXT()),
        sa.Column("wanted_at", sa.INTEGER(), nullable=False),
        sa.Column("began_at", sa.INTEGER()),
        sa.Column("ready_at", sa.INTEGER()),
        sa.Column("ending_at", sa.INTEGER()),
        sa.Column("ended_at", sa.INTEGER()),
        sa.Column("per_hour", sa.REAL(), nullable=False),
        sa.Column("why", sa.TEXT()),
        sa.Column("detail", sa.TEXT(), nullable=False),
        sa.CheckConstraint(STATES, name="pod_leases_state_known"),
        sa.CheckConstraint(f"why IS NULL OR {ENDS}", name="pod_leases_end_known"),
        sa.CheckConstraint("(ended_at IS NOT NULL) = (state = 'ended')", name="pod_leases_ended_iff_end"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("pod_leases_of_run", "pod_leases", ["run"])
