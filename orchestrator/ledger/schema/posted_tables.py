"""The tables of what programs have posted to the Batch API. All times are INTEGER microseconds UTC."""

from sqlalchemy import INTEGER, TEXT, CheckConstraint, Column, Index, Table

from orchestrator.core.batch_api.posted_file import Purpose
from orchestrator.ledger.schema.job_tables import metadata, values_check

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
