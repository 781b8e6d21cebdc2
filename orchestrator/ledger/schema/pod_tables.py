"""The table of pods that work for runs. All times are INTEGER microseconds UTC."""

from typing import Final

from sqlalchemy import BLOB, INTEGER, REAL, TEXT, CheckConstraint, Column, Index, Table

from orchestrator.core.pods.pod_lease import LeaseEnd, LeaseState
from orchestrator.ledger.schema.job_tables import metadata, values_check

pod_leases = Table(
    "pod_leases",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run", INTEGER, nullable=False),  # no foreign key: a run may be deleted, and a pod of it come late
    Column("name", TEXT, nullable=False),
    Column("service_url", TEXT, nullable=False),
    Column("rest_url", TEXT, nullable=False),
    Column("template", BLOB, nullable=False),  # `core.pods.pod_template.PodTemplate` as JSON
    Column("is_new", INTEGER, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("pod", TEXT),
    Column("wanted_at", INTEGER, nullable=False),
    Column("began_at", INTEGER),
    Column("ready_at", INTEGER),
    Column("ending_at", INTEGER),
    Column("ended_at", INTEGER),
    Column("per_hour", REAL, nullable=False),
    Column("why", TEXT),
    Column("detail", TEXT, nullable=False),
    CheckConstraint(values_check("state", LeaseState), name="pod_leases_state_known"),
    CheckConstraint(f"why IS NULL OR {values_check('why', LeaseEnd)}", name="pod_leases_end_known"),
    CheckConstraint("(ended_at IS NOT NULL) = (state = 'ended')", name="pod_leases_ended_iff_end"),
)
"""Each pod that works, or has worked, for a run: `core.pods.pod_lease.PodLease`. One that is started again has another
row."""

OPEN_LEASE: Final = pod_leases.c.state != LeaseState.ENDED.value
"""Something of it may still be paid."""

Index("pod_leases_of_run", pod_leases.c.run)
