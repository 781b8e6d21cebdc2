"""The tables of samples: how runs, endpoints and the process at work stood. All times are INTEGER microseconds UTC.

They lie in the order of what they are of, so that an hour of one is read at once. `step_s` says how long a row is kept
(`core.samples.sample_spacing`).
"""

from sqlalchemy import BLOB, INTEGER, Column, PrimaryKeyConstraint, Table

from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.statements import KEPT_BY_KEY

run_samples = Table(
    "run_samples",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("step_s", INTEGER, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("body", BLOB, nullable=False),  # `samples.RunSample` as JSON
    PrimaryKeyConstraint("run_id", "step_s", "at"),
    **KEPT_BY_KEY,
)

endpoint_samples = Table(
    "endpoint_samples",
    metadata,
    Column("endpoint_id", INTEGER, nullable=False),
    Column("step_s", INTEGER, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("body", BLOB, nullable=False),  # `samples.EndpointSample` as JSON
    PrimaryKeyConstraint("endpoint_id", "step_s", "at"),
    **KEPT_BY_KEY,
)

process_totals = Table(
    "process_totals",
    metadata,
    Column("slot", INTEGER, nullable=False),  # as in `heartbeats`
    Column("step_s", INTEGER, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("body", BLOB, nullable=False),  # `samples.ProcessTotals` as JSON
    PrimaryKeyConstraint("slot", "step_s", "at"),
    **KEPT_BY_KEY,
)
"""What only the process at work knows, added up over all that ever worked."""
