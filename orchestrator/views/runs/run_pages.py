"""What the pages of runs show: all runs, one run, its failures, its jobs, one job. Times are microseconds UTC."""

from collections.abc import Sequence

import msgspec

from orchestrator.views.costs import CostView
from orchestrator.views.jobs import ClusterRow, JobRow, WholeJob
from orchestrator.views.runs.job_progress import JobProgress
from orchestrator.views.runs.run_lines import RunLine
from orchestrator.views.series import Band, Bucket, Series, Stretch
from orchestrator.views.status import RunStatus


class RunsPage(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a ledger, newest first, a page of them; flows with their stages as one line each."""

    lines: Sequence[RunLine]
    show: str
    """Which were asked for."""

    name: str
    """What their names hold."""

    runs: int
    """How many runs the ledger has in all."""

    after: int | None
    """Behind which run the next page begins; None where this is the last one."""


class SettingShown(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a run."""

    key: str
    value: str
    is_default: bool


class FlowPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The flow of which a run carries out a stage."""

    flow: int
    name: str
    pipeline: int
    pipeline_name: str
    stage: str


class ChartData(msgspec.Struct, frozen=True, kw_only=True):
    """What one chart is drawn of."""

    title: str
    series: Sequence[Series]


class RunCharts(msgspec.Struct, frozen=True, kw_only=True):
    """How a run went in a time."""

    window: str
    """How long that is, as it was asked for: `10m` … `all`."""

    windows: Sequence[str]
    """What can be asked for."""

    since: int
    until: int
    charts: Sequence[ChartData]
    bands: Sequence[Band]
    """Pauses, holds and changes of limits."""

    margins: Sequence[Bucket]
    """How long results would still have been there when they were collected, of the whole run."""


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One run."""

    status: RunStatus
    flow: FlowPlace | None
    ended_at: int | None
    """When the last of its jobs ended, once all have."""

    took_s: float
    mean_per_s: float | None
    """Jobs that ended in a second, over its whole time."""

    failed_share: float | None
    """Of the jobs that have ended; None before the first."""

    spent: CostView | None
    """None without a price."""

    at_end: CostView | None
    """What it will have spent once it is over."""

    budget: float | None
    finish_by: int | None
    kinds: int
    """How many kinds of failures it has."""

    clusters: Sequence[ClusterRow]
    """The largest ones."""

    brakes: Sequence[SettingShown]
    breaker: str
    breaker_why: str | None
    may_go_past: bool
    """Whether it is held by what people can have it go on past; a budget or a deadline has to be changed."""

    canary: str | None
    is_resumable: bool
    progress: Sequence[JobProgress]
    """How far the first jobs without an outcome are, of a run whose jobs are resumable."""

    charts: RunCharts
    settings: Sequence[SettingShown]
    """Those that were set first."""

    command: str
    """What shows the run on the command line."""

    texts_hidden: bool = False
    """Whether what workers said is kept back."""


class FailureKindShown(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of failures, and how often it came of late."""

    kind: ClusterRow
    last_hour: Sequence[int]
    """How often it came in each twelfth of that time, oldest first."""

    where: str
    """The filter that means it."""

    command: str
    """What queues its jobs again."""

    where_retried: str
    """The filter that means those of which an execution failed so, and another one has followed or is to follow."""

    cancel_command: str
    """What cancels those of them that have not ended."""


class FailuresPage(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of a run by their kinds."""

    id: int
    run: str
    jobs: int
    """How many have failed or were cancelled."""

    total: int
    """How many jobs the run has."""

    left: int
    """How many of them have not ended."""

    all_kinds: int
    retried_executions: int
    kinds: Sequence[FailureKindShown]
    """The largest ones first; there may be more."""

    counted_since: int
    """From when on the counts of the last hour are: later than an hour ago where very many jobs end."""

    command: str
    texts_hidden: bool = False


class JobsPage(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of a run that a filter means, a page of them."""

    id: int
    run: str
    where: str
    problem: str | None
    """What is wrong with the filter, and where; then there are no jobs."""

    order: str
    """`line`: as they stand in the input; `ended`: the latest first."""

    jobs: Sequence[JobRow]
    count: int | None
    """How many there are; None where nobody has counted."""

    is_exact: bool
    after: str | None
    """Where the next page begins; None where this is the last one."""

    looked_at: int | None
    """How many jobs were looked at for this page, where the end was not reached and the page is not full."""

    can_retry: bool
    can_cancel: bool
    """Whether jobs of such a state may be among them."""

    command: str
    texts_hidden: bool = False


class ShownText(msgspec.Struct, frozen=True, kw_only=True):
    """A text of a job: its input, its output, or what it failed with."""

    text: str | None
    """Its beginning; None where there is none, or it is hidden."""

    size: int
    """Bytes of the whole; 0 where there is none."""

    is_whole: bool = True
    is_hidden: bool = False


class AttemptShown(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job, from when it was due."""

    attempt: int
    began_at: int
    ended_at: int | None
    ended: str | None
    """How, in one word; None while it goes on."""

    stretches: Sequence[Stretch]
    """How long it waited here, was in the service's queue, was executed, and waited to be collected."""

    error: str = ""
    """What it said as it failed, where another one has followed or is to follow."""


class JobDeadlines(msgspec.Struct, frozen=True, kw_only=True):
    """What limits an attempt that is under way; None where nothing does."""

    execution_timeout_ms: int
    ttl_at: int | None
    """When the service forgets it, whatever has become of it."""


class Relative(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a flow that a job was made of, or that was made of it."""

    stage: str
    run: int
    job: int
    custom_id: str
    state: str


class JobShown(msgspec.Struct, frozen=True, kw_only=True):
    """One job with all that happened to it."""

    id: int
    """The number of its run."""

    job: WholeJob
    """Without its payloads, which stand beside it as far as they may be shown."""

    input: ShownText
    output: ShownText
    error: ShownText
    tracebacks: Sequence[str]
    """Those in its error, with their lines."""

    metadata: ShownText
    attempts: Sequence[AttemptShown]
    longest_s: float
    """How long the longest of these took."""

    deadlines: JobDeadlines | None
    """None in a batch, whose requests can be told of none, and which documents none."""

    policy: str | None
    """What it asks of the service by itself, as JSON."""

    more_steps: int
    """How many further events its timeline has, between the first and the last ones."""

    flow: FlowPlace | None
    made_of: Sequence[Relative]
    became: Sequence[Relative]
    next_failed: int | None
    """The number of the job that failed next after this one ended."""

    next_of_kind: int | None
    """The same of those with its kind of failure."""

    command: str
    texts_hidden: bool = False
