"""The tables of the ledger.

`jobs` stays narrow, since every step writes it: payloads and outcomes have tables of their own. The CHECKs are
generated from the lifecycle, so that the file defends the same rules as the program. All times are INTEGER
microseconds UTC. A migrated database equals these definitions (a test compares them).
"""

from collections.abc import Iterable
from typing import Final

from sqlalchemy import (
    BLOB,
    INTEGER,
    REAL,
    TEXT,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from orchestrator.core.batches.batch_record import ENDED, BatchStage
from orchestrator.core.jobs.lifecycle import TERMINAL, Event, State
from orchestrator.core.jobs.run_counters import PAID_TWICE, RAN
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger.statements import KEPT_BY_KEY, NO_NUMBER_TWICE, only_where

SCHEMA_VERSION: Final = "0056"
"""The migration that these definitions are the result of."""

metadata = MetaData()


def values_check(column: str, values: Iterable[str]) -> str:
    """SQL that says that `column` has one of `values`.

    Written with OR and literals, not with IN: SQLite builds a list for each row it checks against IN (measured: two
    thirds of an insert), and its planner sees neither bind values nor IN when it looks whether a partial index serves.
    """
    return "(" + " OR ".join(f"{column} = '{value}'" for value in sorted(values)) + ")"


AT_SERVICE: Final = frozenset({State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING})
"""The states in which the service may hold the job."""

GIVEN_UP: Final = frozenset({State.FAILED, State.CANCELLED})

FATE_UNKNOWN: Final = frozenset(
    {
        FailureClass.UNCERTAIN.value,
        FailureClass.LOST.value,
        FailureClass.EXPIRED.value,
        FailureClass.TRANSPORT.value,
        FailureClass.THROTTLED.value,
        FailureClass.SERVER.value,
        Event.DEFERRED.value,
    }
)
"""How a submission ended of which nobody knows whether it ran: a refusal without effect, too, may have had one."""

HAS_RUN: Final = frozenset(
    {
        State.SUCCEEDED.value,
        FailureClass.FAILED.value,
        FailureClass.TIMED_OUT.value,
        FailureClass.INVALID_OUTPUT.value,
        PAID_TWICE,
        RAN,
        Event.CONTINUED.value,
    }
)
"""How a submission ended that was executed."""

endpoints = Table(
    "endpoints",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("service_url", TEXT, nullable=False),
    Column("endpoint", TEXT, nullable=False),
    Column("learned", BLOB),  # `core.polling.endpoint_estimates.Learned` as JSON
    Column("shard_id", INTEGER),  # see `expressions.shard_of`
    UniqueConstraint("service_url", "endpoint", name="endpoints_of_service"),
)


runs = Table(
    "runs",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("name", TEXT, nullable=False, unique=True),
    Column("endpoint_id", INTEGER, ForeignKey("endpoints.id"), nullable=False),
    Column("source", TEXT, nullable=False),  # the absolute path of the input, or "-"
    Column("settings", BLOB, nullable=False),  # RunSettings as JSON
    Column("created_at", INTEGER, nullable=False),
    Column("intake_accepted", INTEGER, nullable=False, server_default="0"),  # jobs of later intakes do not count yet
    Column("rows_accepted", INTEGER, nullable=False, server_default="0"),  # rows of the latest accepted intake
    Column("pause_requested", INTEGER, nullable=False, server_default="0"),
    Column("cancel_requested", INTEGER, nullable=False, server_default="0"),
    Column("pruned_before", INTEGER, nullable=False, server_default="0"),
    Column("is_released", INTEGER, nullable=False, server_default="0"),  # no more of it is sent until somebody asks
    **NO_NUMBER_TWICE,  # whoever heard of a run that was removed must not take another one for it
)
"""Of jobs that ended before `pruned_before`, all events but the last may be gone: that one says how they ended."""

run_endpoints = Table(
    "run_endpoints",
    metadata,
    Column("run_id", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("endpoint_id", INTEGER, ForeignKey("endpoints.id"), nullable=False),
    PrimaryKeyConstraint("run_id", "endpoint_id"),
    **KEPT_BY_KEY,
)
"""The endpoints besides its own to which jobs of a run were sent again."""

intakes = Table(
    "intakes",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run_id", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("started_at", INTEGER, nullable=False),
    Column("accepted_at", INTEGER),  # NULL: at work, or left by a dead process, or refused
    Column("first_job", INTEGER, nullable=False),  # its new jobs have this number or higher ones
    Column("new_rows", INTEGER, nullable=False, server_default="0"),  # so far: rows that became jobs
    Column("known_rows", INTEGER, nullable=False, server_default="0"),  # so far: rows whose job was there before
    Column("drops", INTEGER, nullable=False, server_default="0"),  # 1: what is not in it is still to be dropped
    **NO_NUMBER_TWICE,  # a removed intake's number must not come back: jobs carry it
)

Index("intakes_unfinished", intakes.c.run_id, intakes.c.first_job, **only_where("accepted_at IS NULL"))

intake_known = Table(
    "intake_known",
    metadata,
    Column("intake_id", INTEGER, nullable=False),
    Column("job_id", INTEGER, nullable=False),
    Column("line", INTEGER, nullable=False),
    Column("policy", BLOB),
    Column("s3_config", BLOB),
    Column("priority", INTEGER, nullable=False, server_default="0"),
    Column("metadata", BLOB),
    Column("input", BLOB),  # NULL: it is what the job has
    Column("packed", INTEGER),
    Column("digest", BLOB),
    PrimaryKeyConstraint("intake_id", "job_id"),
    **KEPT_BY_KEY,
)
"""Rows of an intake whose job was known before: what becomes of it once the intake is accepted."""

intake_repeats = Table(
    "intake_repeats",
    metadata,
    Column("intake_id", INTEGER, nullable=False),
    Column("base", TEXT, nullable=False),
    Column("n", INTEGER, nullable=False),
    PrimaryKeyConstraint("intake_id", "base"),
    **KEPT_BY_KEY,
)
"""How often an input without a custom_id has come up in an intake, where that is more than once."""

jobs = Table(
    "jobs",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run_id", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("endpoint_id", INTEGER, ForeignKey("endpoints.id"), nullable=False),
    Column("custom_id", TEXT, nullable=False),
    Column("intake_id", INTEGER, nullable=False),
    Column("line", INTEGER, nullable=False),
    Column("state", TEXT, nullable=False, server_default=State.QUEUED.value),
    Column("submission_id", INTEGER),
    Column("attempt", INTEGER, nullable=False, server_default="0"),
    Column("failures", INTEGER, nullable=False, server_default="0"),
    Column("lost", INTEGER, nullable=False, server_default="0"),
    Column("uncertain", INTEGER, nullable=False, server_default="0"),
    Column("expired", INTEGER, nullable=False, server_default="0"),
    Column("deferrals", INTEGER, nullable=False, server_default="0"),
    Column("due_at", INTEGER, nullable=False, server_default="0"),
    Column("retry_until", INTEGER),
    Column("unfinished_at", INTEGER),
    Column("trouble", TEXT),
    Column("ended_at", INTEGER),
    Column("attempts_max", INTEGER),  # executions that may fail, of a job that was reopened with its own number
    Column("policy", BLOB),  # what it was reopened with; `payloads.policy` is its line's
    Column("escalated", BLOB),  # what it was given after its troubles: `core.jobs.escalation.EscalationState` as JSON
    Column("segment", INTEGER, nullable=False, server_default="0"),  # the latest, of a resumable job
    Column("priority", INTEGER, nullable=False, server_default="0"),  # within its run
    Column("chunk_most", INTEGER),  # it travels with no more rows, since a larger chunk has failed
    CheckConstraint(values_check("state", State), name="jobs_state_known"),
    CheckConstraint(f"trouble IS NULL OR {values_check('trouble', FailureClass)}", name="jobs_trouble_known"),
    CheckConstraint(
        f"submission_id IS NOT NULL OR NOT {values_check('state', AT_SERVICE)}", name="jobs_at_service_have_submission"
    ),
    CheckConstraint(f"(ended_at IS NOT NULL) = {values_check('state', TERMINAL)}", name="jobs_ended_iff_end"),
    CheckConstraint(f"trouble IS NOT NULL OR NOT {values_check('state', GIVEN_UP)}", name="jobs_given_up_have_trouble"),
    CheckConstraint(
        f"retry_until IS NULL OR {values_check('state', {State.QUEUED, State.SUBMITTING})}",
        name="jobs_retry_before_outstanding",
    ),
    CheckConstraint(
        f"unfinished_at IS NOT NULL OR state <> '{State.OUTSTANDING}'", name="jobs_outstanding_have_deadline"
    ),
    CheckConstraint(
        "attempt >= 0 AND failures >= 0 AND lost >= 0 AND uncertain >= 0 AND expired >= 0 AND deferrals >= 0",
        name="jobs_counters_not_negative",
    ),
    UniqueConstraint("run_id", "custom_id", name="jobs_of_custom_id"),
)

Index("jobs_in_line", jobs.c.run_id, jobs.c.line)
Index("jobs_ended", jobs.c.run_id, jobs.c.ended_at, **only_where("ended_at IS NOT NULL"))
Index(
    "jobs_given_up",
    *(jobs.c.run_id, jobs.c.ended_at, jobs.c.state),  # with the state it tells all that is asked, and no job is read
    **only_where(values_check("state", GIVEN_UP)),
)
Index(
    "jobs_claimable",
    *(jobs.c.run_id, jobs.c.endpoint_id, jobs.c.due_at, jobs.c.priority.desc()),
    **only_where(f"state = '{State.QUEUED}'"),
)
Index("jobs_at_service", jobs.c.state, jobs.c.due_at, **only_where(values_check("state", AT_SERVICE)))

payloads = Table(
    "payloads",
    metadata,
    Column("job_id", INTEGER, ForeignKey("jobs.id"), primary_key=True),
    Column("input", BLOB, nullable=False),
    Column("packed", INTEGER, nullable=False),  # 1: zlib
    Column("digest", BLOB, nullable=False),  # of the canonical input
    Column("policy", BLOB),
    Column("s3_config", BLOB),  # with env:NAME references, never their values
)

row_metadata = Table(
    "row_metadata",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("job_id", INTEGER, nullable=False),
    Column("metadata", BLOB, nullable=False),  # a compact JSON object
    PrimaryKeyConstraint("run_id", "job_id"),
    **KEPT_BY_KEY,
)
"""What rows carry into results and is never sent. Few runs have any, so it has a table of its own, by which it is known
at once whether one has.
"""

submissions = Table(
    "submissions",
    metadata,
    Column("id", INTEGER, primary_key=True),  # the time of its claim, and a slot: never used twice
    Column("job_id", INTEGER, nullable=False),
    Column("attempt", INTEGER, nullable=False),  # the job's attempt that it began with
    Column("remote_id", TEXT),
    Column("sent_at", INTEGER, nullable=False),  # its claim time, until its answer tells better
    Column("ttl_at", INTEGER, nullable=False),
    Column("answered_at", INTEGER),
    Column("ended_at", INTEGER),
    Column("ended", TEXT),  # the event or trouble that ended it, or: PAID_TWICE, RAN
    Column("cancel_at", INTEGER),  # a /cancel is owed from then on; NULL: none, or it was answered
    Column("cancel_why", TEXT),  # why it is, or was, to be cancelled (CancelWhy)
    Column("failure", BLOB),  # what the execution that a /retry follows was told to be, as JSON
    Column("owner", INTEGER, nullable=False, server_default="0"),  # the slot of the process that claimed it
    Column("epoch", INTEGER, nullable=False, server_default="0"),  # the epoch of that process
    Column("execution_ms", INTEGER),  # how long a worker had it; of segments of resumable jobs only
    Column("endpoint_id", INTEGER, nullable=False, server_default="0"),  # its job's as it was claimed
    Column("retention_us", INTEGER),  # how long the service keeps its result, where that is less than the run's
    Column("batch_id", INTEGER),  # the batch in which it is; NULL: it left by itself
    Column("chunk_id", INTEGER),  # the submission by which its chunk travels, its own where it leads; NULL: in none
    Column("chunk_rows", INTEGER, nullable=False, server_default="0"),  # how many rows that carries
)
"""`owner` and `epoch` stand here and not on `jobs`: a claim inserts a submission anyway, while every step of a job
would carry them along. Where one process works, both are 0.
"""

Index("submissions_to_cancel", submissions.c.cancel_at, **only_where("cancel_at IS NOT NULL"))
Index("submissions_of_batch", submissions.c.batch_id, **only_where("batch_id IS NOT NULL"))
Index("submissions_of_chunk", submissions.c.chunk_id, **only_where("chunk_id IS NOT NULL"))

batches = Table(
    "batches",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("run_id", INTEGER, ForeignKey("runs.id"), nullable=False),
    Column("endpoint_id", INTEGER, ForeignKey("endpoints.id"), nullable=False),
    Column("stage", TEXT, nullable=False),
    Column("remote_id", TEXT),  # NULL: not made yet, or nobody knows
    Column("why", TEXT),  # why it is, or was, dropped or cancelled
    Column("made_at", INTEGER, nullable=False),  # intended then
    Column("is_by_place", INTEGER, nullable=False, server_default="0"),
    Column("finalized_at", INTEGER),
    Column("ended_at", INTEGER),
    Column("total", INTEGER, nullable=False, server_default="0"),  # as the service said last, like the next two
    Column("completed", INTEGER, nullable=False, server_default="0"),
    Column("failed", INTEGER, nullable=False, server_default="0"),
    Column("begun_at", INTEGER),  # it had not by then, as far as was asked, and has by now; NULL: it has not
    Column("news_at", INTEGER),  # when it last said that it has begun, or that more have ended
    CheckConstraint(values_check("stage", BatchStage), name="batches_stage_known"),
    CheckConstraint(f"(ended_at IS NOT NULL) = {values_check('stage', ENDED)}", name="batches_ended_iff_end"),
    **NO_NUMBER_TWICE,  # submissions carry it
)
"""The batches of runs at the service: what is intended with each, and how far it has come."""

Index("batches_open", batches.c.endpoint_id, **only_where("ended_at IS NULL"))
Index("batches_of_run", batches.c.run_id)

progress = Table(
    "progress",
    metadata,
    Column("job_id", INTEGER, ForeignKey("jobs.id"), nullable=False),
    Column("segment", INTEGER, nullable=False),
    Column("submission_id", INTEGER, nullable=False),
    Column("given_segment", INTEGER, nullable=False),  # the checkpoint that it began with; 0: none
    Column("given_seq", INTEGER, nullable=False),
    Column("begun_at", INTEGER),  # when a worker began with it, as far as a question has shown
    Column("seq", INTEGER),  # of the latest report, like the following; NULL: there was none
    Column("share", REAL),
    Column("message", TEXT),
    Column("reported_at", INTEGER),
    PrimaryKeyConstraint("job_id", "segment"),
    **KEPT_BY_KEY,
)
"""The segments of resumable jobs, and what was last reported of each: an ordinary run has none."""

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("job_id", INTEGER, ForeignKey("jobs.id"), nullable=False),
    Column("segment", INTEGER, nullable=False),
    Column("seq", INTEGER, nullable=False),  # of the first report that had it
    Column("at", INTEGER, nullable=False),
    Column("checkpoint", BLOB, nullable=False),
    Column("packed", INTEGER, nullable=False),
    PrimaryKeyConstraint("job_id", "segment", "seq"),
    **KEPT_BY_KEY,
)
"""What segments of resumable jobs can go on from: the latest few of each job."""

outcomes = Table(
    "outcomes",
    metadata,
    Column("job_id", INTEGER, ForeignKey("jobs.id"), primary_key=True),
    Column("submission_id", INTEGER),
    Column("remote_id", TEXT),
    Column("status", TEXT),  # what the service last said
    Column("output", BLOB),
    Column("packed", INTEGER, nullable=False, server_default="0"),
    Column("trouble", TEXT),
    Column("message", TEXT),
    Column("delay_ms", INTEGER),
    Column("execution_ms", INTEGER),
    Column("margin_us", INTEGER),
    Column("checksum", INTEGER),  # of the job's number and the stored output; NULL: written by an older program
    Column("worker", TEXT),  # who executed it, where that was told
    Column("error_key", INTEGER),  # the kind of failure (`core.text.error_text`); NULL: it succeeded
    Column("saved", TEXT),  # JSON: the members of which we have made files, whatever else looks like one; NULL: none
    CheckConstraint(f"trouble IS NULL OR {values_check('trouble', FailureClass)}", name="outcomes_trouble_known"),
)

Index("outcomes_of_cluster", outcomes.c.error_key, **only_where("error_key IS NOT NULL"))
Index("outcomes_with_files", outcomes.c.job_id, **only_where("saved IS NOT NULL"))

clusters = Table(
    "clusters",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("error_key", INTEGER, nullable=False),
    Column("n", INTEGER, nullable=False),
    Column("first_at", INTEGER, nullable=False),
    Column("last_at", INTEGER, nullable=False),
    PrimaryKeyConstraint("run_id", "error_key"),
    **KEPT_BY_KEY,
)
"""The failures and cancellations of each kind that a run has now, kept by the transactions that change them; since when
there have been any, and until when, counts those too that were tried again. By state and class there is no index: to go
through the jobs of a million takes SQLite a twentieth of a second, and an index would be paid by every step (measured).
"""

events = Table(
    "events",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("job_id", INTEGER, nullable=False),
    Column("at", INTEGER, nullable=False),
    Column("event", TEXT, nullable=False),
    Column("submission_id", INTEGER),
    Column("attempt", INTEGER, nullable=False),
    Column("trouble", TEXT),
    Column("reason", TEXT, nullable=False),  # in words; empty where the code says it
    Column("reason_code", TEXT),
    Column("detail", TEXT),  # JSON: what belongs to the reason
)

Index("events_of_job", events.c.job_id)

notices = Table(
    "notices",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("submission_id", INTEGER, nullable=False),
    Column("received_at", INTEGER, nullable=False),
    Column("remote_id", TEXT),
    Column("status", TEXT, nullable=False),  # "" for a hint
    Column("output", BLOB),
    Column("packed", INTEGER, nullable=False),
    Column("error", TEXT),
    Column("delay_ms", INTEGER),
    Column("execution_ms", INTEGER),
    Column("endpoint_id", INTEGER, nullable=False, server_default="0"),  # its submission's; 0: nobody knows that one
    UniqueConstraint("submission_id", "status", name="notices_once"),
)

counts = Table(
    "counts",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("name", TEXT, nullable=False),
    Column("n", INTEGER, nullable=False),
    PrimaryKeyConstraint("run_id", "name"),
    **KEPT_BY_KEY,
)
"""Jobs of each state, and the run's cumulative counters, kept by the transactions that change them."""

executions = Table(
    "executions",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("endpoint_id", INTEGER, nullable=False),
    Column("day", INTEGER, nullable=False),  # days since 1970, UTC
    Column("told", INTEGER, key="timed", nullable=False),  # those whose time is known
    Column("total_ms", INTEGER, nullable=False),  # what they took
    Column("batch_ms", INTEGER, nullable=False, server_default="0"),  # of that: in batches of the service
    Column("squares", REAL, nullable=False),  # the sum of the squares, in seconds
    Column("untold", INTEGER, key="untimed", nullable=False),  # the others
    Column("failed", INTEGER, nullable=False),  # of all
    PrimaryKeyConstraint("run_id", "endpoint_id", "day"),
    **KEPT_BY_KEY,
)
"""The executions that have ended, added up by the transactions that end them."""

brakes = Table(
    "brakes",
    metadata,
    Column("run_id", INTEGER, primary_key=True),
    Column("kept", BLOB),  # `brakes.Kept` as JSON
    Column("canary", BLOB),  # the numbers of the jobs that go first, as JSON; NULL: none were chosen
    Column("continued_at", INTEGER, nullable=False, server_default="0"),  # when people last had it go on
    Column("held_by", BLOB),  # `core.gates.gates.Hold` as JSON: what stops it; NULL: nothing, as far as is known
)
"""How the brakes of runs stand."""

margins = Table(
    "margins",
    metadata,
    Column("run_id", INTEGER, nullable=False),
    Column("step", INTEGER, nullable=False),  # the margin in tenths of a second, rounded down
    Column("n", INTEGER, nullable=False),
    Column("least_us", INTEGER, nullable=False),
    PrimaryKeyConstraint("run_id", "step"),
    **KEPT_BY_KEY,
)

limits = Table(
    "limits",
    metadata,
    Column("endpoint_id", INTEGER, ForeignKey("endpoints.id"), nullable=False),
    Column("operation", TEXT, nullable=False),
    Column("requests", INTEGER, nullable=False),
    Column("window_us", INTEGER, nullable=False),
    Column("concurrent", INTEGER),  # NULL: any number
    Column("set_at", INTEGER, nullable=False),
    PrimaryKeyConstraint("endpoint_id", "operation"),
    CheckConstraint("requests >= 1 AND window_us >= 1 AND concurrent >= 1", name="limits_allow_something"),
    **KEPT_BY_KEY,
)
"""Limits that a person has set for an endpoint; they replace those of the settings until they are reset."""

scaling_overrides = Table(
    "loans",
    metadata,
    Column("endpoint_id", INTEGER, ForeignKey("endpoints.id"), primary_key=True),
    Column("rest_url", TEXT, nullable=False),
    Column("least_before", INTEGER, nullable=False),
    Column("most_before", INTEGER, nullable=False),
    Column("least_raised", INTEGER, nullable=False),
    Column("most_raised", INTEGER, nullable=False),
    Column("least_former", INTEGER),
    Column("most_former", INTEGER),
    Column("lent_at", INTEGER, nullable=False),
)
"""How many workers endpoints may have whose bounds were raised for runs: before that, since, and, until the account has
carried out the latest change, what they were raised to until then."""

heartbeats = Table(
    "heartbeats",
    metadata,
    Column("slot", INTEGER, primary_key=True),  # 0-63: what tells the submissions of this process from those of others
    Column("process", TEXT, nullable=False),  # host and process id, for people
    Column("began_at", INTEGER, nullable=False),
    Column("beaten_at", INTEGER, nullable=False),
    Column("epoch", INTEGER, nullable=False),
    Column("said", BLOB, nullable=False),  # `heartbeats.ProcessReport` as JSON
)
"""What each process at work last said of itself, for those who look from outside."""

exports = Table(
    "exports",
    metadata,
    Column("path", TEXT, nullable=False),  # the full path of a results file
    Column("run_id", INTEGER, nullable=False),
    Column("told", BLOB, nullable=False),  # how it was written: JSON
    Column("exported_at", INTEGER, nullable=False),
    PrimaryKeyConstraint("path"),
    **KEPT_BY_KEY,
)
"""The files that runs were exported to last."""

commands = Table(
    "commands",
    metadata,
    Column("id", INTEGER, primary_key=True),
    Column("asked_at", INTEGER, nullable=False),
    Column("asked_by", TEXT, nullable=False),  # user, host and process id, for people
    Column("action", TEXT, nullable=False),
    Column("run_id", INTEGER),
    Column("endpoint_id", INTEGER),
    Column("argument", BLOB, nullable=False),  # JSON; what it holds depends on the action
    Column("taken_at", INTEGER),  # somebody has begun to carry it out
    Column("done_at", INTEGER),
    Column("outcome", TEXT),  # a sentence: what came of it
    Column("is_refused", INTEGER, nullable=False, server_default="0"),
    Column("progress", INTEGER, nullable=False, server_default="0"),  # jobs that it has changed so far
    Column("outcome_code", TEXT),
    CheckConstraint("(done_at IS NULL) = (outcome IS NULL)", name="commands_done_have_outcome"),
    **NO_NUMBER_TWICE,  # a number is waited for, so it must not come back
)
"""What people have asked of whoever serves the ledger, and what came of it."""

Index("commands_pending", commands.c.id, **only_where("done_at IS NULL"))

secret_names = Table(
    "secret_names", metadata, Column("name", TEXT, nullable=False), PrimaryKeyConstraint("name"), **KEPT_BY_KEY
)
"""The environment variables whose values have left with a submission: never the values."""


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
