"""The life of a job, as one table: its states, and which of them follows which event.

Two rules. Nothing else in the program names a next state: a change of state is looked up here or it does not happen.
And the table knows nothing of why: reasons, counters and times belong to the steps (`core.jobs.job`).

"Terminal at the service" and "collected here" are two facts: a job is `succeeded` only once its result is durable in
the ledger.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    """Waits here, to be sent at its due time."""

    SUBMITTING = "submitting"
    """Claimed: a request for it is about to leave, or has left and is not answered."""

    UNCERTAIN = "uncertain"
    """The answer to its submission never came: the service may or may not have the job."""

    OUTSTANDING = "outstanding"
    """Accepted by the service and not yet collected."""

    SUCCEEDED = "succeeded"
    """Its result is durable in the ledger."""

    FAILED = "failed"
    """Given up; a person may reopen it, and a result that comes late still counts."""

    CANCELLED = "cancelled"
    """Stopped by a person, here or at the service; otherwise like a failed one."""


class Event(StrEnum):
    """What can happen to a job."""

    CLAIMED = "claimed"
    """The dispatcher took it; the intent to send is durable."""

    ACCEPTED = "accepted"
    """The service answered with a usable id."""

    UNANSWERED = "unanswered"
    """A request left and no usable answer came."""

    DEFERRED = "deferred"
    """Throttled, refused without effect, or interrupted: costs no attempt."""

    ADOPTED = "adopted"
    """The remote id of a submission was learned otherwise than by its answer."""

    RETRIED = "retried"
    """This execution is over without a result; another one is due."""

    CONTINUED = "continued"
    """A segment of a resumable job is over without a result, and has come further: the next one is due."""

    COMPLETED = "completed"
    """A result, from any submission of the job, whenever it comes. The first one wins."""

    ABANDONED = "abandoned"
    """Out of attempts, not retryable, or so decided by the run's policy."""

    CANCELLED = "cancelled"
    """Stopped by a person, here or at the service."""

    REVOKED = "revoked"
    """A person has changed what a result is, and by that the job's is none."""

    REOPENED = "reopened"
    """A person asked to try a finished job again, with fresh counters."""


TRANSITIONS: Mapping[State, Mapping[Event, State]] = MappingProxyType(
    {
        State.QUEUED: MappingProxyType(
            {
                Event.CLAIMED: State.SUBMITTING,
                Event.COMPLETED: State.SUCCEEDED,
                Event.ABANDONED: State.FAILED,
                Event.CANCELLED: State.CANCELLED,
            }
        ),
        State.SUBMITTING: MappingProxyType(
            {
                Event.ACCEPTED: State.OUTSTANDING,
                Event.ADOPTED: State.OUTSTANDING,
                Event.UNANSWERED: State.UNCERTAIN,
                Event.DEFERRED: State.QUEUED,
                Event.RETRIED: State.QUEUED,
                Event.COMPLETED: State.SUCCEEDED,
                Event.ABANDONED: State.FAILED,
            }
        ),
        State.UNCERTAIN: MappingProxyType(
            {
                Event.ADOPTED: State.OUTSTANDING,
                Event.RETRIED: State.QUEUED,
                Event.COMPLETED: State.SUCCEEDED,
                Event.ABANDONED: State.FAILED,
                Event.CANCELLED: State.CANCELLED,
            }
        ),
        State.OUTSTANDING: MappingProxyType(
            {
                Event.DEFERRED: State.QUEUED,
                Event.RETRIED: State.QUEUED,
                Event.CONTINUED: State.QUEUED,
                Event.COMPLETED: State.SUCCEEDED,
                Event.ABANDONED: State.FAILED,
                Event.CANCELLED: State.CANCELLED,
            }
        ),
        State.SUCCEEDED: MappingProxyType({Event.REVOKED: State.FAILED}),
        State.FAILED: MappingProxyType({Event.COMPLETED: State.SUCCEEDED, Event.REOPENED: State.QUEUED}),
        State.CANCELLED: MappingProxyType({Event.COMPLETED: State.SUCCEEDED, Event.REOPENED: State.QUEUED}),
    }
)
"""`TRANSITIONS[state][event] -> state`. A missing key is an illegal step."""


BY_PEOPLE = frozenset({Event.REVOKED, Event.REOPENED})
"""The events that lead on from an end: a person asks for them."""


def _ends() -> frozenset[State]:
    """The states that a job leaves for another end only, but for what a person asks: the smallest set of which that
    is true, found from the states that nothing leaves.
    """
    ends: frozenset[State] = frozenset()
    while True:
        more = frozenset(
            state
            for state, row in TRANSITIONS.items()
            if {after for event, after in row.items() if event not in BY_PEOPLE} <= ends
        )
        if more == ends:
            return ends
        ends = more


TERMINAL: frozenset[State] = _ends()
"""The states in which a job is finished, computed from the table."""

UNFINISHED: tuple[State, ...] = tuple(state for state in State if state not in TERMINAL)
"""All others."""


def unfinished(counts: Mapping[str, int]) -> int:
    """Of jobs by their states, how many have no outcome yet."""
    return sum(counts.get(state, 0) for state in UNFINISHED)


def ended(counts: Mapping[str, int]) -> int:
    """Of jobs by their states, how many have an outcome."""
    return sum(counts.get(state, 0) for state in TERMINAL)


class IllegalStep(Exception):
    """An event that the table does not allow in the job's state. Never caused by input: it is a defect."""

    def __init__(self, state: State, event: Event) -> None:
        self.state = state
        self.event = event
        super().__init__(f"a job that is {state} cannot be {event}")


def next_state(state: State, event: Event) -> State:
    """The state that `event` leads to from `state`; raises `IllegalStep` where the table has none."""
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalStep(state, event) from None


def is_legal(state: State, event: Event) -> bool:
    """Whether the table has a row for `event` in `state`."""
    return event in TRANSITIONS[state]


def replay(events: Iterable[str]) -> State | None:
    """The state to which `events` lead from `queued`, oldest first; None where one of them is unknown or illegal."""
    state = State.QUEUED
    try:
        for event in events:
            state = TRANSITIONS[state][Event(event)]
    except (KeyError, ValueError):
        return None
    return state
