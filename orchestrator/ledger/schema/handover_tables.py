"""The tables of rows handed from stage to stage: who hands over to whom, what is owed, and what came of it.

A row that ends is owed in the transaction of its last step; what it becomes is written, and no longer owed, in one
other. So however often a process dies, and however often a step is called, rows arrive once.
"""

from enum import StrEnum
from typing import Final

from sqlalchemy import INTEGER, TEXT, CheckConstraint, Column, Index, PrimaryKeyConstraint, Table, UniqueConstraint

from orchestrator.ledger.schema.job_tables import metadata, values_check
from orchestrator.ledger.statements import KEPT_BY_KEY, only_where

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
    Column("key", TEXT, nullable=False),  # `core.jobs.result_reuse.reuse_key`
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


class By(StrEnum):
    """What the rows of a group have in common."""

    ALL = "all"
    """Nothing: there is one group of all."""

    INPUT = "input"
    """They came of one row of the input. Its group is there from the beginning."""

    STAGE = "stage"
    """They came of one row of a stage. Its group is there once that row has its output."""


gathers = Table(
    "gathers",
    metadata,
    Column("run", INTEGER, nullable=False),
    Column("to_run", INTEGER, nullable=False),
    Column("by", TEXT, nullable=False),
    Column("begins", INTEGER, nullable=False),  # a group of `to_run` is what came of one row of `run`
    Column("hands_over", INTEGER, nullable=False),  # its rows are given to `to_run`
    PrimaryKeyConstraint("run", "to_run"),
    CheckConstraint(values_check("by", By), name="gathers_by_known"),
    **KEPT_BY_KEY,
)
"""The runs through which rows come to one that is handed groups of them."""

Index("gathers_to", gathers.c.to_run)

groups = Table(
    "groups",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("to_run", INTEGER, nullable=False),
    Column("key", TEXT, nullable=False),  # the custom_id of the row that all of it came of
    Column("line", INTEGER, nullable=False),
    Column("open", INTEGER, nullable=False),  # what is left to do for it: rows that have no end, rows that are owed
    Column("is_due", INTEGER, nullable=False, server_default="1"),  # it was not handed over yet
    Column("failed_job", INTEGER),  # the one that says why it could not be
    Column("tries", INTEGER, nullable=False, server_default="0"),  # how often its command has failed since it was due
    UniqueConstraint("to_run", "key", name="groups_once"),
)
"""Rows that are handed over together, once none of them is open."""

READY: Final = "is_due = 1 AND open = 0"
"""SQL that says that a group can be handed over, as its index has it."""

Index("groups_due", groups.c.to_run, groups.c.open, **only_where("is_due = 1"))
Index("groups_failed", groups.c.failed_job)
