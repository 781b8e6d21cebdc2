"""Flows, and the schedules of their pipelines, as people and programs are shown them."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from orchestrator.core.pipelines.flow_lifecycle import FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import News


class FlowStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a flow stands. Times are microseconds since the epoch, UTC."""

    name: str
    pipeline: str
    state: FlowState
    kind: FlowKind
    fire_at: int
    recorded_at: int
    started_at: int | None
    ended_at: int | None
    why: str
    """Why it is held, or ended as it did."""

    braked: bool = False
    """It is held by a brake of one of its runs, and goes on by itself once that lets it."""

    late: bool
    """It was told that it had not ended by the time that its schedule allows."""


class StageStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a stage of a flow stands that has begun."""

    stage: str
    run: str | None
    """The run that carries it out; None: it was deleted."""

    source: str
    sha256: str
    """Of its input, hexadecimal."""

    rows_in: int = 0
    waiting: int = 0
    outstanding: int = 0
    done: int = 0
    failed: int = 0
    reused: int = 0
    """Of those done: they have the result of an earlier job, and nothing was sent."""

    jobs_per_s: float | None = None
    eta_s: float | None = None
    why_blocked: str | None = msgspec.field(default=None, name="held_up")


class NotificationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What people are told of a flow. Times are microseconds since the epoch, UTC."""

    news: News
    owed_at: int
    tries: int
    taken_at: int | None = msgspec.field(name="told_at")
    """When somebody took it."""

    given_up_at: int | None
    problem: str
    """Why nobody has taken it yet."""


class AwaitedInput(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a flow waits for."""

    path: str
    until: int
    """When the flow fails without it, in microseconds since the epoch, UTC."""


class FlowShown(msgspec.Struct, frozen=True, kw_only=True):
    """A flow, and its stages that have begun."""

    flow: FlowStatus
    version: int
    """Of its pipeline: the one that it keeps."""

    stages: tuple[StageStatus, ...]
    awaits: AwaitedInput | None = None
    """The input, while it is not there yet."""

    notifications: tuple[NotificationStatus, ...] = ()
    """Oldest first."""


class ScheduleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline and how its schedule stands. Times are microseconds since the epoch, UTC."""

    name: str
    version: int
    fires: str
    """When it fires, in words."""

    zone: str
    next_at: int | None
    """None: it is paused, or fires no more."""

    looked_until: int | None
    """Until when everything that was due is recorded."""

    paused_at: int | None
    paused_until: int | None
    note: str
    waiting: int
    running: int
    on_hold: int = msgspec.field(name="held")
    last: FlowStatus | None
    endpoints: Mapping[str, str] = {}
    """The ids of its endpoints, by its stages."""


class ScheduleHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A fire, a stretch of fires for which nothing was done, or something of which nobody could be told. Times are
    microseconds since the epoch, UTC.
    """

    fire_at: int
    """The fire, or the first of them; or when somebody was to be told."""

    until_at: int | None = None
    """Of a stretch: until when they were due."""

    what: str
    """The state of its flow, or: skipped, missed, paused; or what was not told."""

    flow: str | None = None
    fires: int = 1
    """How many; of 10,000 there may be more."""

    why: str = ""
    backfill: str | None = None
    """The command that has flows made for them."""


class ScheduleTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong with a schedule."""

    pipeline: str
    kind: str
    """late, missed, failing, untold or unseen."""

    text: str


# --- messages


class MessageStanding(StrEnum):
    """What became of a message."""

    OWED = "owed"
    """It is still to be sent."""

    TAKEN = "taken"
    GIVEN_UP = "given up"


class MessageLine(msgspec.Struct, frozen=True, kw_only=True):
    """One message. Times are microseconds UTC."""

    id: str
    """`p12` of a pipeline, `r12` of a run."""

    name: str
    """Of the flow, the pipeline or the run."""

    run: int | None
    flow: str | None
    pipeline: int | None
    news: str
    target: str
    """Empty: the address or the command that stands with its run or pipeline."""

    standing: MessageStanding
    owed_at: int
    due_at: int
    """When it is sent, or again, where it is owed."""

    taken_at: int | None
    given_up_at: int | None
    tries: int
    problem: str


class TargetLine(msgspec.Struct, frozen=True, kw_only=True):
    """What is owed to one who is told."""

    target: str
    owed: int
    since: int
    """Since when the oldest of it is."""

    problem: str
    """Why the latest that could not be sent was not; empty where nothing is in the way."""


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """Messages, the latest first."""

    targets: tuple[TargetLine, ...]
    """Those to whom something is owed."""

    lines: tuple[MessageLine, ...]
    waiting: bool
    """Whether these are only those that nobody has taken yet."""

    after: str | None
    """What the next page begins behind; None: that was all."""

    holder: str | None
    """Who works on the ledger, and sends; None: nobody does."""


class Resent(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking to send messages again."""

    messages: int
    by: str | None
    """Who sends them: the process that works on the ledger; None: this one has tried."""

    taken: int | None = None
    """How many were taken at once, where this process has tried."""

    problems: tuple[str, ...] = ()


class TestDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a test message."""

    target: str
    kind: str
    problem: str | None
    """None: it was taken."""
