"""Why nothing is sent: ordered lists of gates, and nothing else decides it.

A gate looks at what is known and says for how many jobs more it is open, or that it is closed, until when, and why: by
the code of the gate, which programs compare, and its sentence, which the display, `status` and everybody else show. The
first that is closed says why nothing is sent. A further reason is a further function in one of the lists.

Some concern one run (what people asked of it, what it lacks), some the endpoint and with it all runs that depend on it,
and some how much room there is. They are asked in this order: what people asked for comes before what the endpoint
suffers. Times are microseconds UTC.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.refusal_backoff import PAUSE_US_MAX
from orchestrator.core.polling.admission import DEPTH_MIN, QueueDepth, at_service_max, outstanding_max
from orchestrator.units import SECOND_US

PAUSED: Final = "paused: nothing is sent"
CANCELLED: Final = "cancelled: nothing is sent"
STOPPED: Final = "nothing more is sent"
SUSPECT: Final = "the service no longer knows many of our jobs; sending is paused"
REFUSED: Final = "it refuses everything: trying again for a minute"
UNANSWERED: Final = "submissions go unanswered: one at a time"
OUTSTANDING: Final = "as many are outstanding as can be collected in time: waiting"
QUEUE_FULL: Final = "its queue is full: waiting"
"""Said of the service by its answers; collecting goes on."""


class Gate(StrEnum):
    """What may keep jobs from being sent; and see `core.gates.brake_gates.Brake`."""

    CANCELLED = "cancelled"
    PAUSED = "paused"
    FAILING = "failing"
    LACKING = "lacking"
    STOPPED = "stopped"
    SUSPECT = "suspect"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    MEMBER = "member"
    """It is one of a pool, and not well."""

    PODS = "pods"
    """Its pods are not ready."""

    OUTSTANDING = "outstanding"
    UNSERVABLE = "unservable"
    """The process at work cannot serve the run at all."""


class Hold(msgspec.Struct, frozen=True, gc=False):
    """What keeps jobs from being sent, or lets single ones only."""

    gate: str = msgspec.field(name="brake")
    """One of `Gate`, or of `Brake`; what another program wrote may be more."""

    why: str
    stops: bool = True
    """Whether nothing more is sent before somebody, or the time, changes what `why` says."""

    @property
    def sentence(self) -> str:
        """It in words."""
        return f"{STOPPED}: {self.why}" if self.stops else self.why


class Open(msgspec.Struct, frozen=True, gc=False):
    """Jobs may be sent."""

    most: int | None = None
    """How many more may be taken now; None for any number."""

    hold: Hold | None = None
    """Why it is open for single ones only, where people should know."""


class Closed(msgspec.Struct, frozen=True, gc=False):
    """No job may be claimed."""

    hold: Hold
    until: int | None = None
    """When that is over, or to be looked at again; None for as long as nothing changes."""

    recalls: bool = False
    """Whether what is claimed already is given back. Else it is sent: it was found good a quarter of a second ago."""


GateResult = Open | Closed
ANY: Final = Open()
_REFUSED: Final = Hold(Gate.REFUSED, REFUSED, stops=False)
_UNANSWERED: Final = Hold(Gate.UNANSWERED, UNANSWERED, stops=False)


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of one run."""

    cancelled: bool = False
    paused: bool = False
    stopped: str | None = None
    """Why it is to go no further, as its executions fail."""

    lacks: str | None = None
    """What it needs here and does not find."""

    lacks_until: int | None = None
    """When that is looked for again."""


class EndpointFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of one endpoint, for whichever run."""

    stopped: str | None = None
    """Why going on is pointless until somebody mends something."""

    probed_at: int | None = None
    """When the endpoint is asked next whether that was mended."""

    suspect_until: int = 0
    submissions_refused_until: int | None = None
    """When a single one may be tried, while all are refused; None while they are not."""

    questions_refused_until: int | None = None
    unanswered_until: int | None = None
    """When a single submission may be tried, while none is answered; None while they are."""

    in_flight: int = 0
    """Jobs that are claimed or on their way."""

    by_retry: bool = False
    """Whether it is by `/retry` that jobs are to be sent, which is never paid twice unawares."""


class RoomFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is known of how much a run may still send to its endpoint."""

    at_service: int
    """Jobs that are outstanding there, claimed or on their way."""

    own: int
    """How many of them are the run's own."""

    status_per_s: float
    retention_us: int
    urgent: int
    """How many more jobs it is as if there were, since the results of some are kept for less."""

    queue_depth: QueueDepth
    finished_per_s: float
    running: int
    """How many of them are known to be in execution."""

    least_depth: int = DEPTH_MIN
    """So many may wait there whatever its speed, where the depth is automatic."""

    line_is_full: bool
    """Whether large inputs wait for the line already: others would only wait with them."""

    input_bytes: int
    """How much memory is left for inputs."""


# --- of one run


def run_cancelled(run: RunFacts, _now: int) -> GateResult:
    """Somebody has cancelled it."""
    return Closed(Hold(Gate.CANCELLED, CANCELLED, stops=False)) if run.cancelled else ANY


def run_paused(run: RunFacts, _now: int) -> GateResult:
    """Somebody has paused it."""
    return Closed(Hold(Gate.PAUSED, PAUSED, stops=False)) if run.paused else ANY


def failing(run: RunFacts, _now: int) -> GateResult:
    """As many executions in a row have failed as its user wanted to see."""
    return ANY if run.stopped is None else Closed(Hold(Gate.FAILING, run.stopped), recalls=True)


def lacking(run: RunFacts, now: int) -> GateResult:
    """A variable that its jobs need is not set here."""
    if run.lacks is None:
        return ANY
    return Closed(Hold(Gate.LACKING, run.lacks), _later(run.lacks_until, now), recalls=True)


# --- of the endpoint


def stopped(endpoint: EndpointFacts, now: int) -> GateResult:
    """The key or the endpoint has been refused for long."""
    if endpoint.stopped is None:
        return ANY
    return Closed(Hold(Gate.STOPPED, endpoint.stopped), _later(endpoint.probed_at, now), recalls=True)


def suspect(endpoint: EndpointFacts, now: int) -> GateResult:
    """It knows so few of its jobs that it must be to blame; where submissions are refused too, single ones find out."""
    until = endpoint.suspect_until
    is_suspect = now < until and endpoint.submissions_refused_until is None
    return Closed(Hold(Gate.SUSPECT, suspected(until), stops=False), until) if is_suspect else ANY


def suspected(until: int) -> str:
    """`SUSPECT`, until when."""
    return f"{SUSPECT} until {datetime.fromtimestamp(until // SECOND_US, UTC):%H:%M} UTC"


def submissions_refused(endpoint: EndpointFacts, now: int) -> GateResult:
    """Submissions are refused: single ones, at pauses."""
    until = endpoint.submissions_refused_until
    if until is None:
        return ANY
    return Closed(_REFUSED, until, recalls=True) if now < until else Open(max(0, 1 - endpoint.in_flight), _REFUSED)


def questions_refused(endpoint: EndpointFacts, now: int) -> GateResult:
    """Questions are refused, of late: until the next one can have been answered."""
    until = endpoint.questions_refused_until
    return ANY if until is None or now >= until + PAUSE_US_MAX else Closed(_REFUSED, until + PAUSE_US_MAX)


def submissions_unanswered(endpoint: EndpointFacts, now: int) -> GateResult:
    """Submissions go unanswered: single ones, at pauses. Of `/retry` more may go once a pause is over."""
    until = endpoint.unanswered_until
    if until is None:
        return ANY
    if now < until:
        return Closed(_UNANSWERED, until)
    return Open(None if endpoint.by_retry else max(0, 1 - endpoint.in_flight), _UNANSWERED)


# --- of how much room there is


def line(room: RoomFacts, _now: int) -> GateResult:
    """None while inputs wait for the line."""
    return Open(0) if room.line_is_full else ANY


def memory(room: RoomFacts, _now: int) -> GateResult:
    """None while the inputs of claimed jobs take what memory there is for them."""
    return Open(0) if room.input_bytes <= 0 else ANY


def collectable(room: RoomFacts, _now: int) -> GateResult:
    """No more than can be collected in time by asking."""
    most = max(0, outstanding_max(room.status_per_s, room.retention_us) - room.at_service - room.urgent)
    return Open(most, None if most else Hold(Gate.OUTSTANDING, OUTSTANDING, stops=False))


def shallow(room: RoomFacts, _now: int) -> GateResult:
    """No longer a queue at the service than suits the run; one that has none there does not wait for others' to end."""
    most = _at_service_max(room)
    return ANY if most is None else Open(max(0 if room.own else 1, most - room.at_service))


def is_deep(room: RoomFacts) -> bool:
    """Whether the queue at the service is as long as suits the run, or longer."""
    most = _at_service_max(room)
    return most is not None and most <= room.at_service


def _at_service_max(room: RoomFacts) -> int | None:
    return at_service_max(
        room.queue_depth, finished_per_s=room.finished_per_s, running=room.running, least=room.least_depth
    )


RUN_GATES: Final[tuple[Callable[[RunFacts, int], GateResult], ...]] = (run_cancelled, run_paused, failing, lacking)

ENDPOINT_GATES: Final[tuple[Callable[[EndpointFacts, int], GateResult], ...]] = (
    stopped,
    suspect,
    submissions_refused,
    questions_refused,
    submissions_unanswered,
)

ROOM_GATES: Final[tuple[Callable[[RoomFacts, int], GateResult], ...]] = (line, memory, collectable, shallow)


def run_results(run: RunFacts, endpoint: EndpointFacts, now: int) -> list[GateResult]:
    """What the gates of a run and of its endpoint say, in their order."""
    return [gate(run, now) for gate in RUN_GATES] + [gate(endpoint, now) for gate in ENDPOINT_GATES]


def room_results(room: RoomFacts, now: int) -> list[GateResult]:
    """What the gates of room say, in their order."""
    return [gate(room, now) for gate in ROOM_GATES]


def narrowest(results: Iterable[GateResult]) -> GateResult:
    """The first that is closed, or else open for as many as the narrowest lets through."""
    most: int | None = None
    for result in results:
        if isinstance(result, Closed):
            return result
        if result.most is not None:
            most = result.most if most is None else min(most, result.most)
    return Open(most)


def first_hold(results: Iterable[GateResult]) -> Hold | None:
    """Why nothing is sent, or single ones only; None where nothing holds jobs up."""
    return next((result.hold for result in results if result.hold is not None), None)


def requested_stop(*, cancelled: bool, paused: bool) -> Hold | None:
    """Why nothing of a run is sent of which people asked this; None where they asked for neither."""
    run = RunFacts(cancelled=cancelled, paused=paused)
    return first_hold(gate(run, 0) for gate in RUN_GATES)


def recalls(results: Iterable[GateResult]) -> bool:
    """Whether not even what is claimed may be sent."""
    limiting = [result for result in results if result is not ANY]  # asked for each job: mostly there are none
    return any(isinstance(result, Closed) and result.recalls for result in limiting)


def _later(at: int | None, now: int) -> int | None:
    return None if at is None or at <= now else at
