"""The table of what people have asked: who, when, by which way, of what, and what came of it.

All times are INTEGER microseconds UTC.
"""

from sqlalchemy import BLOB, INTEGER, TEXT, CheckConstraint, Column, Index, Table

from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.statements import NO_NUMBER_TWICE, only_where

actions = Table(
    "actions",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("form", TEXT, unique=True),  # the id of the form that asked: it acts once
    Column("asked_at", INTEGER, nullable=False),
    Column("asked_by", TEXT, nullable=False),  # for people
    Column("way", TEXT, nullable=False),
    Column("verb", TEXT, nullable=False),
    Column("kind", TEXT, nullable=False),  # what `subject` is: a run, a flow ...
    Column("subject_id", INTEGER),
    Column("subject", TEXT, nullable=False),  # its name then: a run may be called otherwise later, or be gone
    Column("chosen", TEXT, nullable=False, server_default=""),  # a filter of jobs
    Column("options", BLOB, nullable=False),  # JSON: texts by their names
    Column("asked_n", INTEGER),  # how many it was to concern
    Column("done_n", INTEGER),  # how many it did
    Column("command_id", INTEGER),  # which carries it out; NULL: it was done as it was asked
    Column("done_at", INTEGER),
    Column("outcome", TEXT),  # a sentence: what came of it
    Column("is_refused", INTEGER, nullable=False, server_default="0"),
    CheckConstraint("(done_at IS NULL) = (outcome IS NULL)", name="actions_done_have_outcome"),
    **NO_NUMBER_TWICE,  # it is a page's address
)
"""What was asked. What a page, the command line or a program did leaves its row in the transaction that does it."""

Index("actions_of_command", actions.c.command_id, **only_where("command_id IS NOT NULL"))
Index("actions_of_subject", actions.c.kind, actions.c.subject_id, actions.c.id)
