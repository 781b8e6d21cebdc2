"""The tables of rows handed from stage to stage: who hands over to whom, what is owed, and what came of it.

A row that ends is owed in the transaction of its last step; what it becomes is written, and no longer owed, in one
other. So however often a process dies, and however often a step is called, rows arrive once.
"""

from sqlalchemy import INTEGER, TEXT, Column, Index, PrimaryKeyConstraint, Table

from orchestrator.ledger.sqlite.statements import KEPT_BY_KEY
from orchestrator.ledger.tables import metadata

relays = Table(
    "relays",
    metadata,
    Column("from_run", INTEGER, nullable=False),
    Column("to_run", INTEGER, nullable=False),
    Column("flow_id", INTEGER, nullable=False),
    Column("stage", TEXT, nullable=False),  # the one that `to_run` carries out
    Column("intake_id", INTEGER, nullable=False),  # of what is handed over to it
    PrimaryKeyConstraint("from_run", "to_run"),
    **KEPT_BY_KEY,
)
"""Which runs hand their rows over to which."""

Index("relays_to", relays.c.to_run)

owed = Table(
    "owed",
    metadata,
    Column("to_run", INTEGER, nullable=False),
    Column("job_id", INTEGER, nullable=False),
    PrimaryKeyConstraint("to_run", "job_id"),
    **KEPT_BY_KEY,
)
"""Rows that have ended, and have not been handed over to that run yet."""

Index("owed_by_job", owed.c.job_id)

handovers = Table(
    "handovers",
    metadata,
    Column("job_id", INTEGER, nullable=False),
    Column("to_run", INTEGER, nullable=False),
    Column("children", INTEGER, nullable=False),  # how many rows it has become there
    Column("failed_job", INTEGER),  # the one there that says why its step failed
    PrimaryKeyConstraint("job_id", "to_run"),
    **KEPT_BY_KEY,
)
"""Rows that were handed over."""

Index("handovers_failed", handovers.c.failed_job)

lineage = Table(
    "lineage",
    metadata,
    Column("child", INTEGER, nullable=False),
    Column("parent", INTEGER, nullable=False),
    PrimaryKeyConstraint("child", "parent"),
    **KEPT_BY_KEY,
)
"""Of which row each one was made; the rows of an input were made of none."""

Index("lineage_of_parent", lineage.c.parent)

reusable = Table(
    "reusable",
    metadata,
    Column("key", TEXT, nullable=False),  # `core.reusing.reuse_key`
    Column("job_id", INTEGER, nullable=False),
    PrimaryKeyConstraint("key", "job_id"),
    **KEPT_BY_KEY,
)
"""The jobs that were sent for a key, of runs that take results again: once one has succeeded, others can have its
result.
"""

Index("reusable_of_job", reusable.c.job_id)

reused = Table(
    "reused",
    metadata,
    Column("job_id", INTEGER, primary_key=True),
    Column("from_run", TEXT, nullable=False),  # its name then
    Column("from_custom_id", TEXT, nullable=False),
)
"""The jobs that have the result of another one, whose rows may be gone one day."""
