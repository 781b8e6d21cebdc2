"""What people and programs get to see: how a run stands, what it came to, and how its limits stand."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import msgspec

from orchestrator.core.batches.batch_record import ENDED
from orchestrator.core.diagnosis.failed_executions import FailureKind, RetriedKind
from orchestrator.core.diagnosis.verdict import RunVerdict
from orchestrator.core.gates.scaling_override import RaisedWorkers
from orchestrator.core.planning.worker_steps import WorkersNow
from orchestrator.core.pods.paid_pod import PaidPod
from orchestrator.views.batches import BatchStatus
from orchestrator.views.members import MemberStatus
from orchestrator.views.posted_status import PostedStatus


class UncertainSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Submissions whose answer never came, and what became of them."""

    seen: int
    adopted: int
    resubmitted: int


class MarginSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that were left to the results when they were collected: the least, and the first percentile."""

    min: float | None
    p1: float | None


class RunControl(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a run."""

    run: str
    paused: bool
    cancelled: bool
    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, if anybody does."""

    outcome: str | None = None
    """What came of it; None while nobody has acknowledged it."""

    so_far: int | None = None
    """How many jobs it has changed, where it was begun and is not done."""

    has_ended: bool = False
    """Whether all of its jobs had their outcomes already, so that nothing came of it."""

    flow: str | None = None
    """The flow of which it carries out a stage."""


class StuckSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Outstanding jobs that do not come to an end."""

    in_progress: int = 0
    """In progress far longer than nearly all others were."""

    in_queue: int = 0
    """In the queue for so long, while workers are idle."""

    examples: tuple[str, ...] = ()
    """The `custom_id`s of the oldest."""


class JanitorSummary(msgspec.Struct, frozen=True, kw_only=True):
    """When the part that puts things in order last went through them, and what it could not do."""

    at: int
    """Microseconds since the epoch, UTC."""

    failing: tuple[str, ...] = ()


class CollectedBy(StrEnum):
    """How a run learns that its jobs have finished."""

    WEBHOOKS = "webhooks"
    """The service tells; only late ones are asked for."""

    POLLING = "polling"
    """They are asked for."""

    POLLING_INSTEAD = "polling-instead"
    """They are asked for because most of the webhooks do not arrive."""


class Collecting(msgspec.Struct, frozen=True, kw_only=True):
    """How a process at work collects the results of a run."""

    by: CollectedBy
    safe_until: int | None
    """Until when no result at the run's endpoint can expire (microseconds UTC); None where none can."""


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a run came to: the object that `--json` prints, in this order."""

    run: str
    jobs: Mapping[str, int]
    """`total`, then one number for each state."""

    requests: Mapping[str, int]
    """Requests by operation, of the process that served the run, since it began or this one follows it."""

    throttled: int
    uncertain: UncertainSummary
    lost: int
    expired: int
    paid_twice: int = 0
    failed_executions: int = 0
    retried_executions: int = 0
    """How many of these were followed by another one."""

    no_news: int = 0
    """Answers and webhooks that said nothing of the job that they should have been about."""

    unsaved: int = 0
    """Results of which a member did not become the file that it should have."""

    stuck: StuckSummary = StuckSummary()
    margin_s: MarginSummary
    safe_offline_s: float | None = None
    """For how long no result of the run can expire if nobody collects; None where none can."""

    failure_kinds: int = 0
    largest_failures: tuple[FailureKind, ...] = ()
    """The largest of these kinds."""

    largest_retried: tuple[RetriedKind, ...] = ()
    """The largest kinds of executions that failed and were tried again."""
    all_empty: bool = False
    empty_columns: tuple[str, ...] = ()
    members: tuple[MemberStatus, ...] = ()
    """Those of its pool, in their order; none where it has no pool."""
    output: str | None = None
    """Where the results were written; None: nowhere."""

    errors: str | None = None
    wall_s: float
    interrupted: bool


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands at one moment, for the progress display."""

    run: str
    reading: bool
    """True while the input is read and checked."""

    rows_read: int
    counts: Mapping[str, int]
    """Jobs in each state."""

    jobs_per_s: float | None
    """Finished jobs a second of late; None before there is anything to say."""

    eta_s: float | None
    sent: int
    """`/run` requests sent by this process."""

    window_used: int
    """`/run` requests that count in the service's present window, as far as we know."""

    window_allowed: int
    window_s: float | None = None
    """How long that window is."""

    throttled: int
    queue_full: bool = False
    """Whether the service takes no more submissions for now, because its queue is full."""

    gate: str | None = None
    """Which of `core.gates` lets no job through, or single ones only; None where nothing is wrong."""

    why_blocked: str | None = msgspec.field(default=None, name="held_up")
    """Why no job is sent, or single ones only, in one sentence (`core.gates`); None where nothing is wrong."""

    finding: str | None = None
    """What `doctor` would say first of it where nothing has moved for 20 seconds; None where nothing holds it up."""

    unreachable_s: float | None = None
    """For how long no request has got through to the service; None while they do."""

    line_bytes_per_s: float | None = None
    """What the line to the service, or from it, brings while large bodies wait for it; None while none does."""

    were_uncertain: int = msgspec.field(name="uncertain_seen")
    paid_twice: int = 0
    unsaved: int = 0
    failed_executions: int = 0
    retried_executions: int = 0
    stuck: StuckSummary = StuckSummary()
    janitor: JanitorSummary | None = None
    margin_min_s: float | None
    safe_offline_s: float | None = None
    """For how long no result can expire if nobody collects; None where none can."""

    batches: tuple[BatchStatus, ...] = ()
    """Those of its batches at the service about which something is to be done still."""

    batches_stand: str | None = None
    """How these stand together, in a sentence; None where there are none."""

    members: tuple[MemberStatus, ...] = ()
    """Those of its pool, in their order; none where it has no pool."""
    workers: WorkersNow | None = None
    """How the workers of its endpoint stand, where these follow what it needs."""

    webhooks_fail: bool = False
    """Whether results are asked for because most of the webhooks do not arrive."""

    wall_s: float


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a ledger, as `orchestrator status` shows it."""

    id: int
    """Its number in the ledger: no other run ever has it."""

    run: str
    verdict: RunVerdict | None = None
    """How it stands, in one word and in one sentence."""

    endpoint: str
    service_url: str
    source: str
    jobs: Mapping[str, int]
    """`total`, then one number for each state."""

    uncertain: UncertainSummary
    lost: int
    expired: int
    paid_twice: int = 0
    failed_executions: int = 0
    retried_executions: int = 0
    """How many of these were followed by another one."""

    largest_retried: tuple[RetriedKind, ...] = ()
    """The largest kinds of these, of a run that is not finished."""

    no_news: int = 0
    """Answers and webhooks that said nothing of the job that they should have been about."""

    unsaved: int = 0
    """Results of which a member did not become the file that it should have."""

    stuck: StuckSummary = StuckSummary()
    margin_s: MarginSummary
    posted: PostedStatus | None = None
    """None where it is no batch that a program has posted."""
    created_at: int
    """Microseconds since the epoch, UTC."""

    safe_offline_s: float | None = None
    """For how long no result of the run can expire if nobody collects; None where none can."""

    collected_by: CollectedBy | None = None
    """None where nobody works on the run, and for `local:` endpoints."""

    janitor: JanitorSummary | None = None

    paused: bool = False
    cancelled: bool = False
    """What people have asked of the run."""

    held_up: str | None = None
    """Why no job is sent, or single ones only, in one sentence (`core.gates`): what was asked, else what the process at
    work said of late. None where nothing is wrong, or nobody says."""

    finding: str | None = None
    """What `doctor` would say first of it by the ledger alone, or what the process at work has found out where nothing
    has moved for 20 seconds; None where nothing holds it up."""

    jobs_per_s: float | None = None
    """Finished jobs a second of late; None where nobody works on the run."""

    members: tuple[MemberStatus, ...] = ()
    """Those of its pool, in their order; none where it has no pool."""
    batches: tuple[BatchStatus, ...] = ()
    """Its batches at the service, in the order in which they were made."""

    batches_stand: str | None = None
    """How the open ones stand together, in a sentence; None where there are none, or nobody works on the run."""

    workers: WorkersNow | None = None
    """How the workers of its endpoint stand, where these follow what it needs; None where nobody works on it."""

    held_by: str | None = None
    """Who works on the run, or on the ledger where it is over: process id and time, as text."""

    window_used: int | None = None
    """`/run` requests to the run's endpoint that count in the present window; None where nobody works on it."""

    window_allowed: int | None = None
    window_s: float | None = None
    throttled: int | None = None
    """Requests to the run's endpoint that were answered 429, since the process at work began."""

    @property
    def open_batches(self) -> Sequence[BatchStatus]:
        """Those of its batches about which something is to be done still."""
        return [each for each in self.batches if each.stage not in ENDED]


class LastProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process that worked on a ledger last. Times are microseconds since the epoch, UTC."""

    process: str
    """Host and process id."""

    since: int
    until: int
    """When it said anything last."""

    why: str | None
    """Why it stopped, as it said; None where it ended without a word: it was killed, or the machine went down."""


class RunsShown(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a ledger that people look for, and what there is besides."""

    runs: Sequence[RunStatus]
    """Oldest first."""

    more: int
    """How many further runs there are."""

    more_jobs: Mapping[str, int]
    """How many jobs these have in each state."""

    last_process: LastProcess | None
    """None where one works on the ledger, or none ever has."""

    untold: int = 0
    """How many notifications of pipelines could not be sent, or were given up of late."""

    owed: int = 0
    """How many notifications, of pipelines and of single runs, are still to be sent."""

    owed_problem: str = ""
    """Why the latest of these of a run could not be sent so far."""
    raised_workers: Sequence[RaisedWorkers] = ()  # that nobody has put back yet
    paid_pods: Sequence[PaidPod] = ()
