"""What is known of a ledger, its runs and their services, for the rules of `core.diagnosis`. Times are microseconds."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.diagnosis.server_state import ServerState
from orchestrator.core.gates.gates import Hold
from orchestrator.core.gates.scaling_override import RaisedWorkers
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pods.paid_pod import PaidPod
from orchestrator.core.service.health import Health
from orchestrator.core.service.profiles import endpoint_at
from orchestrator.core.text.next_step import NextStep, Suggestion, Wording, plain
from orchestrator.errors import Hurdle
from orchestrator.units import MINUTE_US

SILENT_US_MAX: Final = MINUTE_US
"""A process that holds the ledger says every few seconds how it stands; after so long it does not work."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """How the process at work stands with the limits of `/run` at an endpoint."""

    used: int
    allowance: int
    throttled: int
    queue_full: bool = False
    in_flight: int = 0
    concurrent: int | None = None
    share: float = 1.0
    """What 429s have left of the rate."""

    stray: float = 0.0
    """The share of requests that is answered 429 whatever the rate: of the operation there of which most are."""

    stray_operation: str = "run"


class MemberTrouble(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a run's pool, and what is wrong with it; None: nothing."""

    endpoint: str
    why: str | None = None
    is_tried: bool = False
    """Whether it gets single jobs by now, which find out whether it is well again."""


class StuckBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch of a run at the service of which nothing comes any more."""

    batch: str | None
    """What the service calls it."""

    rows: int
    ended: int
    """How many of them have ended, as the service said last."""

    quiet_us: int
    is_overtaken: bool = False
    """Whether one that was finalized later has ended."""


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """One run, by its ledger and by what the process at work says of it."""

    name: str
    endpoint: str
    service_url: str = ""
    elsewhere: Sequence[tuple[str, str]] = ()
    """Other endpoints, to which jobs of it were sent, too, each with the URL of its service."""

    members: Sequence[MemberTrouble] = ()
    """Those of its pool, as that process says."""

    pool: Sequence[str] = ()
    """The members of its pool, as its settings name them."""

    batches_waiting: int = 0
    """How many of its batches the service has not begun with."""

    rows_waiting: int = 0
    """How many rows these have."""

    batches_wait_us: int = 0
    """For how long the first of them has waited."""

    stuck_batches: Sequence[StuckBatch] = ()
    """Those of its batches of which nothing comes any more, by what the process at work says."""

    no_batch: str | None = None
    """Why the service makes no batch for it, in its words, by what the process at work says."""

    no_batch_us: int = 0
    """For how long that is so."""

    timeout_ms: int | None = None
    """How long an execution of it may take, as it says itself; None: each endpoint goes by what is set of it."""

    is_of_flow: bool = False
    """Whether it carries out a stage of a flow, which goes on with its pipeline."""

    counts: Mapping[str, int]
    is_paused: bool = False
    is_cancelled: bool = False
    blocked_by: Hold | None = None
    """Why nothing of it is sent, or single jobs only, as that process says."""

    is_unserved: bool = False
    """Whether that process was not asked to send it."""

    unreachable_us: int | None = None
    is_bound: bool = False
    """Whether as many jobs are outstanding as can be collected in time."""

    webhooks_fail: bool = False
    """Whether so few webhooks come that results are asked for."""

    webhooks_come: bool = False
    """Whether enough of them do, as far as is known."""

    unwanted_us: int | None = None
    """For how much longer the service wants no question about jobs; None where it says nothing of that."""

    safe_us: int | None = None
    """For how long no result can expire if nobody collects; None where none can."""

    is_uncollectable: bool = False
    is_low_priority: bool = False
    """Whether its jobs make the endpoint start no workers."""

    sending: Sending | None = None
    refused: str | None = None
    """Why submissions to its endpoint were refused last for so long that going on was pointless; None once one was
    accepted.
    """

    refused_us: int = 0
    """How long ago that was."""

    refused_status: int | None = None
    """The status of the answers that refused them."""

    stopped_status: int | None = None
    """The status of the answers for which the process at work sends nothing more of it."""

    hold: Hold | None = None
    """Which brake stopped it when somebody worked on it last; None for none, or where people have lifted it since."""

    asked: tuple[str, ...] = ()
    """What people have asked that only a process at work can do, and none has done."""

    asked_us: int = 0
    """How long ago the first of it was asked."""

    waited_us: int | None = None
    """How long the first of its jobs has been at the service; None where none is, or nobody looked."""

    @property
    def places(self) -> list[tuple[str, str]]:
        """The endpoints at which jobs of it may be, each with the URL of the service."""
        return [(self.endpoint, self.service_url), *self.elsewhere]

    @property
    def unfinished(self) -> int:
        """Jobs without an outcome."""
        return self.queued + self.at_service

    @property
    def queued(self) -> int:
        """Jobs that wait to be sent."""
        return self.counts.get(State.QUEUED, 0)

    @property
    def at_service(self) -> int:
        """Jobs that the service has, or may have."""
        return sum(self.counts.get(state, 0) for state in (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING))


class LedgerState(msgspec.Struct, frozen=True, kw_only=True):
    """The ledger's file, and who works on it."""

    path: str
    holder: str | None = None
    silent_us: int = 0
    """For how long whoever holds it has said nothing."""

    newer: str | None = None
    """Why it cannot be read, where a newer program wrote it."""

    network: str | None = None
    """What kind of network file system it is on; None for none."""

    free_bytes: int | None = None
    """How much more can be written to its disk; None where that is not known."""

    busy: str | None = None
    """Why it cannot be read, where somebody else has it."""


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """What an endpoint answered when it was asked how it is."""

    endpoint: str
    service_url: str
    failure: str | None = None
    """Why there is no answer."""

    hurdle: Hurdle | None = None
    """Where on the way the question ended, where that is known."""

    status: int | None = None
    is_of_service: bool = True
    """Whether the answer is the service's own."""

    health: Health | None = None
    tells_health: bool = True
    """Whether it says how it is: a server at a URL may have no way to."""

    timeout_ms: int | None = None
    """How long an execution may take there whose job does not say, by the endpoint's settings in the account; 0: as
    long as the service allows. None where nobody asked, or it does not tell.
    """

    ahead_us: int | None = None
    """How far this machine's clock is ahead of the service's, at least; negative where it is behind. None where the
    answer does not tell.
    """

    @property
    def name(self) -> str:
        """What people know it by."""
        return endpoint_at(self.endpoint, self.service_url)


class WebhookState(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a self-test: a request to the listener by the URL that the service is given."""

    url: str
    failure: str | None = None
    """Why there is no answer."""

    status: int | None = None
    is_ours: bool = False
    """Whether the answer is the listener's, by its key."""


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known."""

    ledger: LedgerState | None = None
    server: ServerState | None = None
    """How the server stands on which it is; None for a file, or where nobody asked."""

    runs: Sequence[RunState] = ()
    services: Sequence[ServiceState] = ()
    raised_workers: Sequence[RaisedWorkers] = ()
    """Of endpoints whose bounds nobody has put back yet."""

    paid_pods: Sequence[PaidPod] = ()
    """Those that work for runs, or have."""

    now: int = 0
    webhook_url: str | None = None
    """Under which URL the service reaches the listener of the process at work; None without one."""

    webhook: WebhookState | None = None
    """None where nobody listens, or nobody asked."""

    word: Wording = plain
    """How the steps are worded that findings advise."""

    @property
    def is_worked_on(self) -> bool:
        """Whether a process is at work."""
        return self.ledger is not None and self.ledger.holder is not None and self.ledger.silent_us <= SILENT_US_MAX

    def next_step(self, step: NextStep, run: RunState) -> str:
        """That step for `run`, in words."""
        return self.word(Suggestion(step, run.name))

    def resume(self, run: RunState) -> str:
        """What makes `run` go on, in words: with its pipeline, where it is of a flow."""
        return self.next_step(NextStep.CARRY_OUT_FLOWS if run.is_of_flow else NextStep.RESUME_RUN, run)

    def service_of(self, run: RunState) -> ServiceState | None:
        """What the endpoint of `run` answered; None where it was not asked."""
        its = (run.endpoint, run.service_url)
        return next((each for each in self.services if (each.endpoint, each.service_url) == its), None)

    @property
    def open_runs(self) -> list[RunState]:
        """Those that have jobs without an outcome, and are to get one."""
        return [run for run in self.runs if run.unfinished and not run.is_cancelled]

    def runs_at(self, service: ServiceState) -> list[RunState]:
        """The open runs at that endpoint."""
        its = (service.endpoint, service.service_url)
        return [run for run in self.open_runs if its in run.places]
