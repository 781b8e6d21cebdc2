"""What happens in one simulated world: drawn from a scenario and a seed, before anything runs.

A plan is plain data. Whatever chance decides about the world as a whole stands in it, so that a failing seed can be
read; chances inside the world (how long an execution takes, which answer is lost) come from generators with its seed.
Seconds are virtual and count from the world's beginning.
"""

import random
from collections.abc import Iterator
from enum import StrEnum, auto

import msgspec

from orchestrator.core.gates.scaling_override import WorkerRange
from orchestrator.core.lanes.sync_requests import SYNC_RETENTION_US
from orchestrator.core.lanes.via import Via
from orchestrator.emulator.batches.batch_rules import BatchOrder, BatchRules
from orchestrator.emulator.contract.faults import Fault, Faults
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.settings.words_and_defaults import OnExpired, OnUncertain
from orchestrator.units import SECOND_US
from tests.simulation.chunk_plan import ChunkPlan
from tests.simulation.engines.plan import EnginesPlan
from tests.simulation.pool_plan import MemberTrouble, PoolPlan
from tests.simulation.posted_plan import PostedPlan
from tests.simulation.save_plan import SavePlan

MINUTE_S = 60.0
HOUR_S = 60 * MINUTE_S
DAY_S = 24 * HOUR_S


class Kill(StrEnum):
    """At which moment of the database a process is killed."""

    CALL = auto()
    """As a call begins."""
    BEFORE_COMMIT = auto()
    AFTER_COMMIT = auto()
    """The commit is durable, and nobody has heard of it."""


class Marks(StrEnum):
    """What becomes of the marks of what was sent when a process is killed."""

    KEPT = auto()
    REMOVED = auto()
    TORN = auto()
    OF_ANOTHER_BOOT = auto()
    """The machine has crashed, not the process."""


class Crash(msgspec.Struct, frozen=True):
    """A process is killed at the `number`th moment of that kind (from 1)."""

    kill: Kill
    number: int


class FailureClass(StrEnum):
    """What goes wrong around the program."""

    NETWORK_GONE = auto()
    """Connections are refused in both directions, and answers under way are lost."""
    SERVICE_GONE = auto()
    """The service cuts every connection."""
    ENDPOINT_HIDDEN = auto()
    """The service answers 404 to everything."""
    CLOCK_JUMP = auto()
    """The wall clock of the program is set by `size` seconds."""
    STOP = auto()
    """The process is cancelled; somebody gives the command again `size` seconds later."""
    INTERRUPT = auto()
    """The process is asked to stop, as by Ctrl-C."""
    ASLEEP = auto()
    """The process stands still, as by SIGSTOP or a closed lid; the service and the network go on."""


CLOSED = frozenset(
    {FailureClass.NETWORK_GONE, FailureClass.SERVICE_GONE, FailureClass.ENDPOINT_HIDDEN, FailureClass.ASLEEP}
)

BLINDING = frozenset(
    {Fault.NOT_JSON, Fault.BARE_ERROR, Fault.EMPTY_ANSWER, Fault.HALF_ANSWER, Fault.UNAUTHORIZED, Fault.OTHER_RECORD}
)
"""The faults in whose spells no question is answered."""


class Weather(msgspec.Struct, frozen=True, kw_only=True):
    """One trouble: from `at_s` on, for `size` seconds (or, see `FailureClass`, by so many)."""

    trouble: FailureClass
    at_s: float
    size: float
    who: int | None = None
    """The processes of which run (from 0) it befalls, where it befalls processes; None: all that there are."""

    @property
    def until_s(self) -> float:
        return self.at_s + self.size


class Rate(msgspec.Struct, frozen=True):
    """At most `requests` in `window_s`, `concurrent` at once."""

    requests: int
    window_s: float
    concurrent: int


class Where(StrEnum):
    """Where a run's jobs are executed."""

    HERE = auto()
    NEXT_DOOR = auto()
    """At another endpoint of the same service."""
    ELSEWHERE = auto()
    """At another service, with a key of its own."""


OTHER_ENDPOINTS = {Where.HERE: "ep-2", Where.NEXT_DOOR: "ep", Where.ELSEWHERE: "ep-2"}
"""The other endpoint of the service at which a run is."""


class Lie(StrEnum):
    """What somebody who is told of a run does instead of taking the message."""

    HANGS = auto()
    REDIRECTS = auto()
    BUSY = auto()
    """It answers 429, and for how long it wants nothing."""
    BREAKS = auto()
    """It answers 500."""
    CLOSES = auto()
    """It closes the connection without a word, though it has the message."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of the ledger, and the person who wants it."""

    name: str = "batch"
    jobs: int = 20
    where: Where = Where.HERE
    priority: int = 0
    max_attempts: int = 3
    on_uncertain: OnUncertain = OnUncertain.RESUBMIT
    on_expired: OnExpired = OnExpired.RESUBMIT
    begins_s: float = 0.0
    """When the command is given first, where runs are worked on side by side."""


class Word(StrEnum):
    """What somebody asks of a run, from a process of its own."""

    PAUSE = auto()
    CONTINUE = auto()
    CANCEL = auto()
    RETRY = auto()
    PRIORITY = auto()
    LIMITS_SET = auto()
    LIMITS_RESET = auto()


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody asks something."""

    word: Word
    run: int
    """Of which run (from 0)."""
    at_s: float
    elsewhere: bool = False
    """Whether jobs are to be tried again at the other endpoint of their service."""
    number: int = 0
    """A priority, or how many requests to `/run` there may be in a window."""
    crash: Crash | None = None
    """Whereof the process dies that asks."""


class AccountTrouble(StrEnum):
    """What an account does that is asked for other workers."""

    REFUSES = auto()
    FAILS = auto()
    """It answers 500, and nothing has changed."""
    HANGS = auto()
    """It carries it out, and answers after minutes."""
    LOSES = auto()
    """It carries it out, and the answer is lost."""


class ScalingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The workers of the first run's endpoint follow what it needs, within `range`."""

    range: WorkerRange
    finish_by_s: float
    share: float = 0.0
    """The share of the changes with which the account does one of its `troubles`, until all is calm."""
    troubles: tuple[AccountTrouble, ...] = ()
    by_hand_at_s: float | None = None
    """When somebody else changes them; None: nobody does."""
    is_shared: bool = False
    """Whether the other runs at that endpoint want the same, each by a time of its own."""


class BatchPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the service's own Batch is like, and what of it the program is told."""

    rows: int
    """The most rows that the program puts into one."""
    delay_s: float
    workers: int
    append_ids: bool
    order: BatchOrder
    kept_s: float
    """How long a batch is kept that is over."""
    wait_s: float
    """How long the program waits for more rows."""
    repeats: int
    """So few rows that are sent again go by `/run`."""
    active_max: int
    limit_status: int
    has_active_drafts: bool
    page_max: int
    strangers: int
    """So many batches does another program make there."""
    leaves_s: float | None = None
    """When runs are to be finished that do not say so themselves, so that what is stuck leaves by `/run`."""

    @property
    def rules(self) -> BatchRules:
        """As the service has them."""
        return BatchRules(
            delay_s=self.delay_s,
            workers=self.workers,
            append_ids=self.append_ids,
            order=self.order,
            retention_s=self.kept_s,
            active_max=self.active_max,
            limit_status=self.limit_status,
            has_active_drafts=self.has_active_drafts,
            page_max=self.page_max,
        )


class PodsPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The pods that work for the first run, and for those at the same place, each with its own."""

    counts: tuple[int, ...]
    """How many the first process of a run wants, and so on; the last one holds for those that follow."""
    workers: int
    """Each pod works on so many requests at once."""
    at_once: int
    """So many are at each at once, at most."""
    stops: bool
    """Whether those that nobody needs are stopped; else they are terminated."""
    provisioning_s: float
    booting_s: float
    ready_within_s: float
    capacity: int | None
    """So many may compute at a time, of all runs together; None: any number."""
    late_share: float = 0.0
    """The share of the requests for one whose answer is lost, and that are done a while later."""
    faults: Faults
    """What befalls them and their account, until all is calm."""

    def wanted_by(self, process: int) -> int:
        """How many the so manieth process of a run (from 0) wants."""
        return self.counts[min(process, len(self.counts) - 1)]


class Plan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One world. The defaults are a calm one at the contract's limits."""

    scenario: str
    seed: int
    jobs: int = 20
    workers: int = 5
    seconds: tuple[float, float] = (0.2, 3.0)
    """Executions take this long, evenly spread."""
    time_scale: float = 1.0
    """How much faster the services' time runs: by their own, they keep results for as much longer than `retention_s`,
    and so on. What stands here is of the true clock."""
    scale_is_told: bool = True
    retention_s: float = 30 * MINUTE_S
    ttl_s: float = DAY_S
    execution_timeout_s: float = 10 * MINUTE_S
    run_rate: Rate = Rate(1000, 10, 200)
    status_rate: Rate = Rate(2000, 10, 400)
    batch_rate: Rate = Rate(100, 10, 10)
    retry_rate: Rate | None = None
    """To which the program keeps, though the service knows no limit of `/retry`; None: that of the contract for
    `/cancel`."""
    yields: bool = False
    """Whether workers yield what they make, and runs gather it."""

    algorithm: Algorithm = Algorithm.SLIDING_LOG
    faults: Faults = Faults()
    calm_at_s: float = 0.0
    """When faults and weather are over; from then on the program must come to an end."""
    patience_s: float = 2 * HOUR_S
    """How long after that."""
    travel_s: float = 0.1
    """A message travels for up to this long, one way."""
    database_s: float = 0.02
    """A call of the database takes up to this long."""
    webhooks: bool = False
    storm: int = 1
    """Every webhook comes this often, and as often with a token that is not quite right."""
    secrets: bool = False
    """The jobs carry secrets of the environment, and workers that fail repeat them."""
    max_attempts: int = 3
    on_uncertain: OnUncertain = OnUncertain.RESUBMIT
    on_expired: OnExpired = OnExpired.RESUBMIT
    escalate: tuple[str, ...] = ()
    """What jobs are given after their troubles; `{other}` is the other endpoint of their service."""
    retry_budget: str | None = None
    canary: str | None = None
    """Which rows of each run go first, as it is written; None: none do."""
    budget_share: float | None = None
    """A run may cost so many times what its jobs cost that take the longest, each once; None: any amount."""
    day_share: float | None = None
    """All runs at an endpoint may cost so many times in a day what the jobs of all cost that die of their time-out, each
    once; None: any amount."""
    max_failures: str | None = None
    """How many rows of each run may fail, as it is written; None: any number."""
    finish_by_s: float | None = None
    """When each run is to be finished, by its own clock; what would end later is not sent. None: whenever it is."""
    via: Via = Via.QUEUE
    """By which lanes the jobs of all runs leave."""
    at_url: bool = False
    """What takes requests past the queue is a server at a URL; else the service's `/openai/*`."""
    resumable: bool = False
    """The jobs of all runs outlive their submissions: each takes several times as long as an execution may."""
    pool: PoolPlan | None = None
    """None: the first run has one endpoint."""
    scaling: ScalingPlan | None = None
    """None: there are as many workers as there are."""
    batches: BatchPlan | None = None
    """None: nobody has any."""
    chunks: ChunkPlan | None = None
    """None: each row is a job of the service of its own."""
    posted: PostedPlan | None = None
    """What programs post, in the place of the runs; None: nobody does."""
    saves: SavePlan | None = None
    """None: outputs stay as they are."""
    engines: EnginesPlan | None = None
    """None: the ledger is a file, and one process works on it."""
    pods: PodsPlan | None = None
    """None: the runs have endpoints."""
    others: tuple[RunPlan, ...] = ()
    """The runs but for the first one, which has the settings above."""
    side_by_side: bool = False
    """Each run has its own processes, all at the same time; else one run is worked on after the other."""
    askings: tuple[Asking, ...] = ()
    receivers: tuple[tuple[Lie, float], ...] | None = None
    """Two are told of the runs, who lie so often until all is calm; None: nobody is told."""
    all_succeed: bool = False
    """Nothing happens that could be the end of a job: each must have its result."""
    sure: bool = False
    """Whatever happens, it is known of each request whether it was answered: nothing may be uncertain."""
    crashes: tuple[Crash, ...] = ()
    """The first process that works on a run dies of the first, and so on."""
    marks: Marks = Marks.KEPT
    """Of each crash."""
    away_s: float = 5.0
    """How long after the end of a process the next one begins."""
    clocks: tuple[float, ...] = ()
    """By so many seconds the wall clock of the first process is wrong, and so on; those of later ones are right."""
    padding: tuple[int, int] = (0, 0)
    """Outputs are longer than their inputs by so many bytes, small ones being the most common."""
    weather: tuple[Weather, ...] = ()

    @property
    def runs(self) -> tuple[RunPlan, ...]:
        """All of them."""
        first = RunPlan(
            jobs=self.jobs,
            max_attempts=self.max_attempts,
            on_uncertain=self.on_uncertain,
            on_expired=self.on_expired,
        )
        return (first, *self.others)

    @property
    def sync_retention_s(self) -> float:
        """How long the services keep what left by `/runsync`, in our time."""
        return min(self.retention_s, SYNC_RETENTION_US / SECOND_US / self.time_scale)

    @property
    def vias(self) -> set[Via]:
        """By which lanes jobs leave, wherever they go."""
        return {self.via, *(via for via in (() if self.pool is None else self.pool.vias) if via is not None)}

    @property
    def are_held(self) -> bool:
        """Whether some leave by `/runsync`."""
        return not self.vias.isdisjoint({Via.SYNC, Via.BOTH})

    @property
    def direct(self) -> bool:
        """Whether jobs go past the queue: what is not answered is never heard of again."""
        return not self.via.has_queue

    @property
    def is_untold(self) -> bool:
        """Whether the services keep results for less than was agreed, without a word of it."""
        return self.time_scale != 1.0 and not self.scale_is_told

    def budget_s(self, run: RunPlan) -> float | None:
        """For so many seconds of execution `run` may pay; None: for any number."""
        return None if self.budget_share is None else self.budget_share * run.jobs * self.seconds[1]

    def budget_per_day_s(self) -> float | None:
        """For so many seconds of execution all runs at an endpoint may pay in a day; None: for any number."""
        jobs = sum(run.jobs for run in self.runs)
        return (
            None if self.day_share is None else self.day_share * jobs * max(self.execution_timeout_s, self.seconds[1])
        )

    def closed(self, member: int | None = None) -> tuple[tuple[float, float], ...]:
        """From when to when (seconds) nothing can be learned from the service, or of what is at that member of the pool,
        whatever the program does.
        """
        weather = [(each.at_s, each.until_s) for each in self.weather if each.trouble in CLOSED]
        weather += [
            (each.at_s, each.until_s)
            for each in (() if self.pool is None else self.pool.weather)
            if each.member == member and each.trouble is MemberTrouble.REFUSED
        ]
        spells = [each for each in self.faults.spells if any(each.rate(fault) for fault in BLINDING)]
        return (*weather, *((each.from_s, each.from_s + each.for_s) for each in spells))

    def offset_s(self, process: int) -> float:
        """By how much the wall clock of the so manieth process (from 0) is wrong."""
        return self.clocks[process] if process < len(self.clocks) else 0.0

    def output_of(self, raw_input: bytes) -> bytes:
        """What a worker makes of an input."""
        if self.yields:
            return b"[" + raw_input + b',"and more"]'
        least, most = self.padding
        if not most:
            return raw_input
        chance = random.Random(f"padding {self.seed} {raw_input!r}")
        length: int = round(least * (most / least) ** chance.random())
        return raw_input[:-1] + b',"padding":"' + b"x" * length + b'"}'

    def of(self, trouble: FailureClass) -> tuple[Weather, ...]:
        """The weather of one kind."""
        return tuple(each for each in self.weather if each.trouble is trouble)

    def __str__(self) -> str:
        """The plan as a few lines of text, without what is as usual."""
        return "\n".join(f"  {name}: {text}" for name, text in _unusual(self))


def _unusual(struct: msgspec.Struct) -> Iterator[tuple[str, str]]:
    """The fields that are not as usual, as text."""
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if value != field.default:
            yield field.name, _text(value)


def _text(value: object) -> str:
    match value:
        case Weather():
            who = "" if value.who is None else f" of {value.who}"
            return f"{value.trouble}{who} at {value.at_s:g} s ({value.size:g} s)"
        case Crash():
            return f"{value.kill} {value.number}"
        case Rate():
            return f"{value.requests} in {value.window_s:g} s, {value.concurrent} at once"
        case msgspec.Struct():
            return ", ".join(f"{name} {text}" for name, text in _unusual(value))
        case tuple():
            return "; ".join(map(_text, value))
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)
