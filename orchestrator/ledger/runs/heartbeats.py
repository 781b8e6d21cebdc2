"""The heartbeats of processes at work: what each says of itself, for those who look at the ledger from outside, one row
a process.

Whoever works knows at every moment how results are collected, until when they are safe and how its limits stand;
others would have to go through all outstanding jobs, or cannot know.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from sqlalchemy import select

from orchestrator.core.batches.outlook import BatchesOutlook
from orchestrator.core.gates.gates import Hold
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.planning.worker_steps import WorkersNow
from orchestrator.ledger.expressions import no_process
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.schema.job_tables import heartbeats
from orchestrator.ledger.statements import upsert
from orchestrator.ledger.transactions.repository import Access, Repository
from orchestrator.units import SECOND_US
from orchestrator.views.batches import BatchStatus, NoBatch, outlook_of
from orchestrator.views.members import MemberStatus
from orchestrator.views.status import Collecting, JanitorSummary, StuckSummary

STALE_US: Final = 30 * SECOND_US
"""What a process said longer ago says nothing of the present: it was stopped, or cannot write."""


class MeterReading(msgspec.Struct, frozen=True, kw_only=True):
    """How an operation of an endpoint stands with its limit: `used` of `allowance` slots of a window of `window_s`,
    requests and 429s so far.
    """

    endpoint_id: int
    operation: Operation
    used: int
    allowance: int
    throttled: int
    window_s: float | None = None
    sent: int = 0
    queue_full: bool = False
    """Whether the service takes nothing for now because its queue is full."""

    share: float = 1.0
    """What 429s have left of the rate."""

    stray: float = 0.0
    """The share of the requests that is answered 429 whatever the rate."""

    in_flight: int = 0
    """Requests that wait for their answers at this moment, of `concurrent` at most (None: any number)."""

    concurrent: int | None = None


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a process stands with one run."""

    collecting: Collecting | None = None
    """None where it does not serve the run's endpoint, and for `local:` ones."""

    stuck: StuckSummary = StuckSummary()
    blocked_by: Hold | None = None
    """Why no job of it is sent, or single ones only, where the reason is not that people asked for that: what they ask
    stands with the run. None where nothing is wrong, and where the process has nothing to do with the run.
    """

    stopped: str | None = None
    """Why going on to submit is pointless until somebody mends something."""

    refused_status: int | None = None
    """The status of the answers that have stopped it, where it is the service that refuses."""

    crawl_s: float | None = None
    """How long a job takes at the pace at which single ones find out whether all may go; 0 for the pace of late. None
    where all may go, or none.
    """

    webhook_share: float | None = None
    """The share of finished jobs whose webhook came, of late; None while too little is known."""

    is_unserved: bool = False
    """Whether the process was not asked to send jobs of it, or no more of them."""

    is_bound: bool = False
    """Whether as many jobs are outstanding there as can be collected in time."""

    is_released: bool = False
    """Whether somebody asked that no more of it is sent, without pausing it."""

    is_saving: bool = False
    """Whether files are made of its results before it is sent."""

    is_uncollectable: bool = False
    """Whether even going on to ask is."""

    unwanted_until: int | None = None
    """Until when the service wants no question about jobs, where that is for a while (microseconds UTC)."""

    unreachable_since: int | None = None
    """Since when no request has got through to its service (microseconds UTC); None while they do."""

    line_bytes_per_s: float | None = None
    """What the line to its service, or from it, brings while large bodies wait for it; None while none does."""

    members: tuple[MemberStatus, ...] = ()
    """Those of its pool, if it has one."""

    batches: tuple[BatchStatus, ...] = ()
    """Those of its batches at the service about which something is to be done still."""

    no_batch: NoBatch | None = None
    """That the service makes no batch for it."""

    workers: WorkersNow | None = None
    """How the workers of its endpoint stand, where these follow what it needs."""

    finding: str | None = None
    """Why nothing of it has moved for a while, in one sentence, where something holds it up."""

    @property
    def outlook(self) -> BatchesOutlook | None:
        """How its batches stand together; None where it has none that are open."""
        return outlook_of(self.batches)

    def batches_stand(self, now: int) -> str | None:
        """The same in a sentence."""
        outlook = self.outlook
        return None if outlook is None else outlook.sentence(now)

    @property
    def window(self) -> tuple[int, int] | None:
        """How much of the allowances of its members is used, all together; None where it has none."""
        said = [(each.window_used or 0, each.window_allowed) for each in self.members if each.window_allowed]
        return (sum(used for used, _ in said), sum(allowed for _, allowed in said)) if said else None


def together(one: RunReport, other: RunReport) -> RunReport:
    """How a process stands with a run at two endpoints, of which `one` is the run's own."""
    untils = [said.safe_until for said in (one.collecting, other.collecting) if said and said.safe_until is not None]
    return msgspec.structs.replace(
        one,
        collecting=one.collecting and msgspec.structs.replace(one.collecting, safe_until=min(untils, default=None)),
        blocked_by=one.blocked_by or other.blocked_by,
        stopped=one.stopped or other.stopped,
        refused_status=one.refused_status or other.refused_status,
        is_unserved=one.is_unserved and other.is_unserved,
        is_bound=one.is_bound or other.is_bound,
        is_uncollectable=one.is_uncollectable or other.is_uncollectable,
        unwanted_until=max(one.unwanted_until or 0, other.unwanted_until or 0) or None,
        unreachable_since=one.unreachable_since or other.unreachable_since,
        line_bytes_per_s=one.line_bytes_per_s or other.line_bytes_per_s,
    )


def of_pool(whole: RunReport, members: Sequence[RunReport]) -> RunReport:
    """How a process stands with a run that has a pool: what is wrong at some of its members holds up none of it."""
    if all(each.blocked_by is not None for each in members):
        return whole
    unreachable = [each.unreachable_since for each in members if each.unreachable_since is not None]
    return msgspec.structs.replace(
        whole,
        blocked_by=None,
        refused_status=None,
        is_bound=all(each.is_bound for each in members),
        unreachable_since=max(unreachable) if len(unreachable) == len(members) else None,
    )


class ProcessReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a process says of itself."""

    runs: Mapping[int, RunReport] = {}
    meters: tuple[MeterReading, ...] = ()
    janitor: JanitorSummary | None = None
    webhook_url: str | None = None
    """Under which URL the service reaches its listener; None without one."""

    stopped: str | None = None
    """Why it stopped, once it has; None while it works, and where it ended without a word."""

    webhook_bytes: int = 0
    """How many bytes a webhook URL adds to its requests, at most."""

    lacks: Mapping[int, str] = {}
    """What it lacks to serve shards, by their numbers, as text for people."""

    lack_counts: Mapping[int, int] = {}
    """How many things it lacks, by the same numbers: whoever lacks less serves a shard better."""

    def of(self, run: int) -> RunReport:
        """What it says of `run`."""
        return self.runs.get(run, RunReport())


def of_engines(one: ProcessReport, other: ProcessReport) -> ProcessReport:
    """What a process says that has both of these engines."""
    janitors = [each.janitor for each in (one, other) if each.janitor is not None]
    failing = tuple(dict.fromkeys(name for each in janitors for name in each.failing))
    janitor = JanitorSummary(at=min(each.at for each in janitors), failing=failing) if janitors else None
    return ProcessReport(runs={**one.runs, **other.runs}, meters=one.meters + other.meters, janitor=janitor)


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The row of one process. Times are microseconds UTC."""

    slot: int
    process: str
    began_at: int
    beaten_at: int
    epoch: int
    """The number of the process among those of a ledger that several may work on; else 0."""

    is_gone: bool = False
    """Whether it is none of those any more: it has ended, or was declared dead."""

    report: ProcessReport

    def is_fresh(self, now: int) -> bool:
        """Whether it says anything of the present; clocks of two processes may differ either way."""
        return not self.is_gone and abs(now - self.beaten_at) <= STALE_US


def at_work(beats: Iterable[Heartbeat], now: int, *, since: int) -> list[Heartbeat]:
    """Those of processes that work on a ledger now, which somebody has held `since` that time: where only one can work
    on it, whoever spoke before was another one.
    """
    return [beat for beat in beats if beat.is_fresh(now) and (beat.epoch or beat.beaten_at >= since)]


_said: Final = msgspec.json.Decoder(ProcessReport)

_WRITE: Final = upsert(
    heartbeats, lambda new: {name: new[name] for name in ("process", "began_at", "beaten_at", "epoch", "said")}
)


_ALL: Final = select(heartbeats, no_process(heartbeats.c.epoch, heartbeats.c.slot).label("is_gone")).order_by(
    heartbeats.c.beaten_at.desc(), heartbeats.c.slot
)


class Heartbeats(Repository):
    """The heartbeats of a ledger. This process beats in `slot`, with `epoch`."""

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._began_at = access.now()
        self.slot = 0
        """Where one process works, it is always the first one."""

        self.epoch = 0

    async def beat(self, said: ProcessReport) -> None:
        """Writes down what this process says of itself now. Raises `StorageError`."""
        row = {
            "slot": self.slot,
            "process": process_name(),
            "began_at": self._began_at,
            "beaten_at": self._access.now(),
            "epoch": self.epoch,
            "said": msgspec.json.encode(said),
        }
        await self._access.shared.execute(_WRITE, row)

    async def all(self) -> list[Heartbeat]:
        """What each process said last, however long ago; that of the latest first."""
        return [
            Heartbeat(
                slot=row.slot,
                process=row.process,
                began_at=row.began_at,
                beaten_at=row.beaten_at,
                epoch=row.epoch,
                is_gone=bool(row.is_gone),
                report=_decoded(row.said),
            )
            for row in await self._access.rows(_ALL)
        ]


def _decoded(said: bytes) -> ProcessReport:
    """What another program may have said in words that this one does not know is no news."""
    try:
        return _said.decode(said)
    except msgspec.ValidationError:
        return ProcessReport()
