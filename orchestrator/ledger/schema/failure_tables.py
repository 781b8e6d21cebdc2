"""The tables of executions that failed and were tried again."""

from sqlalchemy import INTEGER, TEXT, Column, ForeignKey, PrimaryKeyConstraint, Table

from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.sqlite.statements import KEPT_BY_KEY

failed_executions = Table(
    "failed_executions",
    metadata,
    Column("job_id", INTEGER, ForeignKey("jobs.id"), nullable=False),
    Column("attempt", INTEGER, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("trouble", TEXT, nullable=False),
    Column("error_key", INTEGER, nullable=False),  # the kind of failure (`core.text.error_text`)
    Column("message", TEXT, nullable=False),  # in one line, and cut
    Column("execution_ms", INTEGER),
    PrimaryKeyConstraint("job_id", "attempt"),
    **KEPT_BY_KEY,
)
"""What executions said that another one has followed. They go with the events of their job."""

retried_kinds = Table(
    "retried_kinds",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("error_key", INTEGER, nullable=False),
    Column("trouble", TEXT, nullable=False),
    Column("sample", TEXT, nullable=False),  # what the first one of them said
    Column("n", INTEGER, nullable=False),
    Column("total_ms", INTEGER, nullable=False),  # what they took, as far as that was told
    Column("untold", INTEGER, nullable=False),  # of how many it was not
    Column("first_at", INTEGER, nullable=False),
    Column("last_at", INTEGER, nullable=False),
    PrimaryKeyConstraint("run_id", "error_key"),
    **KEPT_BY_KEY,
)
"""The kinds of such executions that a run had, counted by the transactions of their steps."""
