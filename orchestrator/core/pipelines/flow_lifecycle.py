"""The life of a flow, as one table. A flow is one execution of a pipeline, which a fire or a person asked for.

As with jobs (`core.jobs.lifecycle`): nothing else in the program names a next state.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class FlowState(StrEnum):
    """Where a flow is."""

    WAITING = "waiting"
    """It is recorded, and its turn has not come."""

    RUNNING = "running"
    """It has begun: it waits for its input, or its runs are served."""

    ON_HOLD = "held"
    """Nothing more of it is sent until a person continues it, or the brake that holds it lets it go on."""

    SUCCEEDED = "succeeded"
    """Every job has a result."""

    PARTIAL = "partial"
    """It went through, and some jobs have no result."""

    FAILED = "failed"
    """It could not be carried out, or no job has a result."""

    CANCELLED = "cancelled"
    """Stopped by a person, or another flow took its turn."""


class FlowEvent(StrEnum):
    """What can happen to a flow."""

    STARTED = "started"
    ON_HOLD = "held"
    CONTINUED = "continued"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """By a person, or by the flow that replaces it."""

    RELEASED = "released"
    """What held it is over by itself."""

    SKIPPED = "skipped"
    """A newer one takes the turn that it waited for."""

    REOPENED = "reopened"
    """Jobs of it were queued again, or some of its stages are to run anew."""


_ENDS: Final[Mapping[FlowEvent, FlowState]] = {
    FlowEvent.SUCCEEDED: FlowState.SUCCEEDED,
    FlowEvent.PARTIAL: FlowState.PARTIAL,
    FlowEvent.FAILED: FlowState.FAILED,
    FlowEvent.CANCELLED: FlowState.CANCELLED,
}
_AGAIN: Final[Mapping[FlowEvent, FlowState]] = MappingProxyType({FlowEvent.REOPENED: FlowState.RUNNING})

TRANSITIONS: Final[Mapping[FlowState, Mapping[FlowEvent, FlowState]]] = MappingProxyType(
    {
        FlowState.WAITING: MappingProxyType(
            {
                FlowEvent.STARTED: FlowState.RUNNING,
                FlowEvent.CANCELLED: FlowState.CANCELLED,
                FlowEvent.SKIPPED: FlowState.CANCELLED,
            }
        ),
        FlowState.RUNNING: MappingProxyType({FlowEvent.ON_HOLD: FlowState.ON_HOLD, **_ENDS}),
        FlowState.ON_HOLD: MappingProxyType(
            {FlowEvent.CONTINUED: FlowState.RUNNING, FlowEvent.RELEASED: FlowState.RUNNING, **_ENDS}
        ),
        FlowState.SUCCEEDED: _AGAIN,
        FlowState.PARTIAL: _AGAIN,
        FlowState.FAILED: _AGAIN,
        FlowState.CANCELLED: _AGAIN,
    }
)
"""`TRANSITIONS[state][event] -> state`. A missing key is an illegal step."""

ENDED: Final = frozenset(_ENDS.values())
"""The states of a flow that is over, unless a person has something of it done again."""

LIVE: Final = frozenset(FlowState) - ENDED

BEGUN: Final = LIVE - {FlowState.WAITING}
"""The states in which a flow takes one of its pipeline's places."""


class FlowKind(StrEnum):
    """What a flow is there for."""

    SCHEDULED = "scheduled"
    """A fire of its pipeline's schedule."""

    TRIGGERED = "triggered"
    """Somebody asked for it."""

    BACKFILL = "backfill"
    """Somebody asked for the fires of a past time; it stands behind the others."""


def late_from(
    kind: FlowKind, *, fire_at: int, recorded_at: int, started_at: int | None, due_at: int, jitter_us: int
) -> int | None:
    """From when on the time of a flow counts, after which it is late: from its fire, but from when somebody asked for
    it where that came later. Who goes on with one that has ended asks for it again: it is due then.

    One of a backfill stands behind the others by design. So its time begins with its turn; None: that has not come.
    """
    if kind is FlowKind.BACKFILL and started_at is None:
        return None
    asked_at = recorded_at if kind is not FlowKind.SCHEDULED else fire_at
    turn_at = fire_at if kind is not FlowKind.BACKFILL or started_at is None else started_at
    again_at = due_at if due_at > fire_at + jitter_us else fire_at
    return max(fire_at, asked_at, turn_at, again_at)


def before(event: FlowEvent) -> frozenset[FlowState]:
    """The states in which `event` may happen."""
    return frozenset(state for state, row in TRANSITIONS.items() if event in row)


def after(event: FlowEvent) -> FlowState:
    """The state that `event` leads to, from wherever it may happen."""
    [state] = {row[event] for row in TRANSITIONS.values() if event in row}
    return state


def flow_end(*, succeeded: int, others: int) -> FlowEvent:
    """How a flow ended that went through, of whose last jobs so many succeeded, and so many did not."""
    if not others:
        return FlowEvent.SUCCEEDED
    return FlowEvent.PARTIAL if succeeded else FlowEvent.FAILED
