"""The tables of what programs have posted to the Batch API. All times are INTEGER microseconds UTC."""

from typing import Final

from sqlalchemy import BLOB, INTEGER, TEXT, CheckConstraint, Column, Index, Table

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS, PostedState
from orchestrator.core.batch_api.posted_file import Purpose
from orchestrator.ledger.schema.job_tables import metadata, values_check
from orchestrator.ledger.statements import KEPT_BY_KEY, only_where

POSTED_OPEN: Final = values_check("state", set(PostedState) - POSTED_ENDS)

posted_files = Table(
    "posted_files",
    metadata,
    Column("number", INTEGER, primary_key=True),
    Column("id", TEXT, nullable=False, unique=True),
    Column("owner", TEXT, nullable=False),
    Column("filename", TEXT, nullable=False),
    Column("purpose", TEXT, nullable=False),
    Column("size", INTEGER, nullable=False),
    Column("created_at", INTEGER, nullable=False),
    Column("expires_at", INTEGER),
    CheckConstraint(values_check("purpose", Purpose), name="posted_files_purpose_known"),
)
"""Each file that there is. Its content lies in a folder beside the ledger, under its id."""

Index("posted_files_of_owner", posted_files.c.owner, posted_files.c.number)

posted_batches = Table(
    "posted_batches",
    metadata,
    Column("number", INTEGER, primary_key=True),
    Column("id", TEXT, nullable=False, unique=True),
    Column("owner", TEXT, nullable=False),
    Column("endpoint", TEXT, nullable=False),
    Column("completion_window", TEXT, nullable=False),
    Column("input_file", TEXT, nullable=False),  # no foreign key: a file goes when its sender says so
    Column("metadata", BLOB),
    Column("keep_output_us", INTEGER),
    Column("state", TEXT, nullable=False),
    Column("is_late", INTEGER, nullable=False),
    Column("model", TEXT),
    Column("run", INTEGER),  # no foreign key: it may be deleted
    Column("errors", BLOB),
    Column("total", INTEGER, nullable=False),
    Column("completed", INTEGER, nullable=False),
    Column("failed", INTEGER, nullable=False),
    Column("usage", BLOB),
    Column("output_file", TEXT),
    Column("error_file", TEXT),
    Column("created_at", INTEGER, nullable=False),
    Column("expires_at", INTEGER, nullable=False),
    Column("in_progress_at", INTEGER),
    Column("finalizing_at", INTEGER),
    Column("completed_at", INTEGER),
    Column("failed_at", INTEGER),
    Column("expired_at", INTEGER),
    Column("cancelling_at", INTEGER),
    Column("cancelled_at", INTEGER),
    CheckConstraint(values_check("state", PostedState), name="posted_batches_state_known"),
)
"""Each batch: `core.batch_api.posted_batch.PostedBatch`."""

Index("posted_batches_of_owner", posted_batches.c.owner, posted_batches.c.number)
Index("posted_batches_of_run", posted_batches.c.run)
Index("posted_batches_open", posted_batches.c.number, **only_where(POSTED_OPEN))

posted_ends = Table(
    "posted_ends",
    metadata,
    Column("state", TEXT, primary_key=True),
    Column("n", INTEGER, nullable=False),
    Column("completed", INTEGER, nullable=False),
    Column("failed", INTEGER, nullable=False),
    **KEPT_BY_KEY,
)
"""How often batches have ended how, and their requests, counted by the transactions that end them: the batches
themselves are forgotten one day, and what only grows must not fall with them.
"""

posted_storage = Table(
    "posted_storage",
    metadata,
    Column("number", INTEGER, primary_key=True),  # always the same
    Column("bytes_max", INTEGER, nullable=False),
)
"""How much room files may have together, as the process was told last that keeps them."""
