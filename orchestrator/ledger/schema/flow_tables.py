"""The tables of pipelines, in the same file as those of jobs: what fired, what did not, and what became of it.

Of a schedule only the past is kept. Each fire up to its watermark has one row in `fires` or lies in one of its `gaps`.
All times are INTEGER microseconds UTC.
"""

from typing import Any, Final

from sqlalchemy import (
    BLOB,
    INTEGER,
    TEXT,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    literal_column,
)

from orchestrator.core.pipelines.due_fires import GapKind
from orchestrator.core.pipelines.flow_lifecycle import ENDED, LIVE, FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import News
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.ledger.schema.job_tables import metadata, values_check
from orchestrator.ledger.statements import KEPT_BY_KEY, NO_NUMBER_TWICE, only_where

pipelines = Table(
    "pipelines",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("name", TEXT, nullable=False, unique=True),
    Column("definition_id", INTEGER, nullable=False),  # the one that was applied last
    Column("created_at", INTEGER, nullable=False),
    **NO_NUMBER_TWICE,
)

definitions = Table(
    "definitions",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("pipeline_id", INTEGER, ForeignKey("pipelines.id"), nullable=False),
    Column("version", INTEGER, nullable=False),  # of its pipeline, from 1 on
    Column("body", BLOB, nullable=False),  # `core.pipelines.Pipeline` as JSON
    Column("applied_at", INTEGER, nullable=False),
    UniqueConstraint("pipeline_id", "version", name="definitions_once"),
    **NO_NUMBER_TWICE,
)
"""What a pipeline is, and was: a flow keeps the one that it began with."""

schedules = Table(
    "schedules",
    metadata,
    Column("pipeline_id", INTEGER, ForeignKey("pipelines.id"), primary_key=True),
    Column("watermark", INTEGER, nullable=False),  # what was due until then is recorded
    Column("paused_at", INTEGER),
    Column("paused_until", INTEGER),
    Column("note", TEXT, nullable=False, server_default=""),  # why it is paused
    Column("continued_at", INTEGER, nullable=False, server_default="0"),  # failures before are forgiven
    CheckConstraint("paused_until IS NULL OR paused_at IS NOT NULL", name="schedules_paused_until"),
)
"""The pipelines that fire by themselves."""

fires = Table(
    "fires",
    metadata,
    Column("pipeline_id", INTEGER, ForeignKey("pipelines.id"), nullable=False),
    Column("fire_at", INTEGER, nullable=False),  # the nominal time
    Column("definition_id", INTEGER, nullable=False),
    Column("recorded_at", INTEGER, nullable=False),
    Column("skipped", TEXT),  # why there is no flow of it; NULL: there is
    PrimaryKeyConstraint("pipeline_id", "fire_at"),
    **KEPT_BY_KEY,
)

gaps = Table(
    "gaps",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("pipeline_id", INTEGER, ForeignKey("pipelines.id"), nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("after_at", INTEGER, nullable=False),
    Column("until_at", INTEGER, nullable=False),
    Column("first_at", INTEGER, nullable=False),  # the nominal time of its first fire
    Column("n", INTEGER, nullable=False),
    Column("recorded_at", INTEGER, nullable=False),
    CheckConstraint(values_check("kind", GapKind), name="gaps_kind_known"),
    CheckConstraint("n >= 1 AND until_at > after_at", name="gaps_hold_something"),
)
"""The fires that were due after `after_at` and until `until_at`, for which nothing was done."""

Index("gaps_of_pipeline", gaps.c.pipeline_id, gaps.c.until_at)

flows = Table(
    "flows",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("pipeline_id", INTEGER, ForeignKey("pipelines.id"), nullable=False),
    Column("definition_id", INTEGER, ForeignKey("definitions.id"), nullable=False),
    Column("fire_at", INTEGER, nullable=False),
    Column("again", INTEGER, nullable=False, server_default="1"),  # how often its fire was asked for, this one included
    Column("name", TEXT, nullable=False, unique=True),
    Column("kind", TEXT, nullable=False),
    Column("state", TEXT, nullable=False, server_default=FlowState.WAITING.value),
    Column("parallel", INTEGER, nullable=False, server_default="1"),  # of a backfill: how many of its flows run at once
    Column("recorded_at", INTEGER, nullable=False),
    Column("started_at", INTEGER),
    Column("ended_at", INTEGER),
    Column("why", TEXT, nullable=False, server_default=""),  # it is held, or ended as it did
    Column("is_cancelled", INTEGER, nullable=False, server_default="0"),  # it is to end
    Column("is_overruled", INTEGER, nullable=False, server_default="0"),  # a person went on past `max-failed`
    Column("is_late", INTEGER, nullable=False, server_default="0"),  # that it was late was told
    Column("due_at", INTEGER, nullable=False, server_default="0"),  # it does not begin before: its fire, and the jitter
    Column("is_braked", INTEGER, nullable=False, server_default="0"),  # it is held by a brake, and nothing is paused
    UniqueConstraint("pipeline_id", "fire_at", "again", name="flows_once"),
    CheckConstraint(values_check("kind", FlowKind), name="flows_kind_known"),
    CheckConstraint(values_check("state", FlowState), name="flows_state_known"),
    CheckConstraint(f"(ended_at IS NOT NULL) = {values_check('state', ENDED)}", name="flows_ended_iff_end"),
    **NO_NUMBER_TWICE,
)

LIVE_ONLY: Final = values_check("state", LIVE)
"""SQL that says that a flow has not ended, as its index has it."""

Index("flows_live", flows.c.pipeline_id, **only_where(LIVE_ONLY))

flow_ends = Table(
    "flow_ends",
    metadata,
    Column("pipeline_id", INTEGER, nullable=False),
    Column("state", TEXT, nullable=False),
    Column("n", INTEGER, nullable=False),
    PrimaryKeyConstraint("pipeline_id", "state"),
    **KEPT_BY_KEY,
)
"""How often flows have ended how, counted by the transactions that end them: one that goes on afterwards has ended all
the same, and what only grows must not fall with it.
"""

stages = Table(
    "stages",
    metadata,
    Column("flow_id", INTEGER, ForeignKey("flows.id"), nullable=False),
    Column("stage", TEXT, nullable=False),
    Column("again", INTEGER, nullable=False, server_default="1"),
    Column("run_id", INTEGER),  # of `runs`; it may have been deleted since
    Column("source", TEXT, nullable=False),  # the path of its input, or the command that printed it
    Column("sha256", TEXT, nullable=False),  # of the bytes that were read, hexadecimal
    Column("began_at", INTEGER, nullable=False),
    Column("is_short", INTEGER, nullable=False, server_default="0"),  # its flow was held, since it needs more rows
    Column("only_failed", INTEGER, nullable=False, server_default="0"),  # what has succeeded before is taken over
    PrimaryKeyConstraint("flow_id", "stage", "again"),
    **KEPT_BY_KEY,
)
"""The stages of a flow that have begun."""

Index("stages_of_run", stages.c.run_id)


def _message() -> tuple[Column[Any], ...]:
    """What stands of each message, whatever it is of."""
    return (
        Column("body", BLOB, nullable=False),  # as it is sent: JSON
        Column("owed_at", INTEGER, nullable=False),
        Column("due_at", INTEGER, nullable=False),  # it is sent then, or again
        Column("tries", INTEGER, nullable=False, server_default="0"),
        Column("told_at", INTEGER),  # somebody has taken it
        Column("given_up_at", INTEGER),
        Column("problem", TEXT, nullable=False, server_default=""),  # why nobody took it the last time
        Column("target", TEXT, nullable=False, server_default=""),  # its name; "": the address that is written out
    )


outbox = Table(
    "outbox",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("pipeline_id", INTEGER, ForeignKey("pipelines.id"), nullable=False),
    Column("flow_id", INTEGER),  # NULL: it is of the schedule
    Column("news", TEXT, nullable=False),
    *_message(),
    CheckConstraint(values_check("news", News), name="outbox_news_known"),
    CheckConstraint("told_at IS NULL OR given_up_at IS NULL", name="outbox_told_or_given_up"),
    **NO_NUMBER_TWICE,  # a receiver knows a message again by what its number is a part of
)
"""Notifications, which are owed by the transaction that causes them."""

_UNSETTLED: Final = "told_at IS NULL AND given_up_at IS NULL"
UNSETTLED: Final = literal_column(f"({_UNSETTLED})", type_=Boolean())
"""SQL that says that a notification is still owed, as its index has it."""

run_outbox = Table(
    "run_outbox",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run_id", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("news", TEXT, nullable=False),
    *_message(),
    CheckConstraint(values_check("news", RunNews), name="run_outbox_news_known"),
    CheckConstraint("told_at IS NULL OR given_up_at IS NULL", name="run_outbox_told_or_given_up"),
    **NO_NUMBER_TWICE,  # as that of `outbox`
)
"""Notifications of single runs, owed by the transaction that ends them."""

message_ends = Table(
    "message_ends",
    metadata,
    Column("target", TEXT, nullable=False),  # as in the messages
    Column("result", TEXT, nullable=False),  # `told`, or `given_up`
    Column("n", INTEGER, nullable=False),
    PrimaryKeyConstraint("target", "result"),
    **KEPT_BY_KEY,
)
"""How often messages to each target came to an end, counted by the transactions that end them: the messages themselves
are forgotten one day, and what only grows must not fall with them.
"""

episodes = Table(
    "episodes",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("news", TEXT, nullable=False),
    Column("began_at", INTEGER, nullable=False),
    Column("over_at", INTEGER),  # since when it does not hold any more; NULL: it does
    PrimaryKeyConstraint("run_id", "news"),
    CheckConstraint(values_check("news", RunNews), name="episodes_news_known"),
    **KEPT_BY_KEY,
)
"""What holds of runs that somebody was told of, once, until it has been over for a while."""

Index("outbox_owed", outbox.c.due_at, **only_where(_UNSETTLED))
Index("outbox_of_flow", outbox.c.flow_id)

RUN_NEWS_UNSETTLED: Final = literal_column(
    "(run_outbox.told_at IS NULL AND run_outbox.given_up_at IS NULL)", type_=Boolean()
)
Index("run_outbox_owed", run_outbox.c.due_at, **only_where(_UNSETTLED))
Index("run_outbox_of_run", run_outbox.c.run_id)
