"""What becomes of a fire while flows of its pipeline have not ended, and which waiting flow may begin.

Both are decided from all that is there at the moment, anew each time: nothing of it is remembered.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from orchestrator.core.pipelines.flow_lifecycle import BEGUN, FlowKind, FlowState
from orchestrator.core.pipelines.pipeline import Overlap

WAITING_MAX: Final = 100
"""So many flows of a schedule wait at most; further fires are skipped."""


class Live(NamedTuple):
    """A flow that has not ended."""

    id: int
    kind: FlowKind
    state: FlowState
    fire_at: int
    due_at: int
    """It does not begin before."""

    is_cancelled: bool = False
    """Whether it is being cancelled, and has not ended yet."""

    parallel: int = 1
    """Of a backfill: how many of its flows run at once."""


class Ruled(NamedTuple):
    """What becomes of some fires, and of flows because of them."""

    skipped: dict[int, str]
    """Of these fires no flow is made, and why. All others are to wait."""

    dropped: dict[int, str]
    """Flows (by number) that wait, and shall not begin any more, and why."""

    cancelled: dict[int, str]
    """Flows (by number) that have begun, and shall end, and why."""


TOO_MANY: Final = f"{WAITING_MAX} flows wait already"
NEWER: Final = "a newer fire takes its place"
STILL_RUNNING: Final = "the flow before still runs"


def rule(overlap: Overlap, parallel: int, fires: Sequence[int], live: Iterable[Live]) -> Ruled:
    """What becomes of `fires` (in order), where these flows of the pipeline have not ended. Those of backfills stand
    behind and do not count, nor does what a person asked for wait in the schedule's line.
    """
    flows = sorted((flow for flow in live if flow.kind is not FlowKind.BACKFILL), key=_in_order)
    waiting = [flow for flow in flows if flow.kind is FlowKind.SCHEDULED and flow.state is FlowState.WAITING]
    match overlap:
        case Overlap.QUEUE:
            room = max(0, WAITING_MAX - len(waiting))
            return Ruled(dict.fromkeys(fires[room:], TOO_MANY), {}, {})
        case Overlap.SKIP:
            room = max(0, parallel - len(flows))
            return Ruled(dict.fromkeys(fires[room:], STILL_RUNNING), {}, {})
        case Overlap.LATEST:
            if not fires:
                return Ruled({}, {}, {})
            return Ruled(dict.fromkeys(fires[:-1], NEWER), {flow.id: NEWER for flow in waiting}, {})
        case _:  # REPLACE
            return _replaced(parallel, fires, flows)


def _replaced(parallel: int, fires: Sequence[int], flows: Sequence[Live]) -> Ruled:
    """Of all that has not ended the newest go on, as many as may at once."""
    going = [flow for flow in flows if not flow.is_cancelled]
    skipped = fires[: max(0, len(fires) - parallel)]
    kept = len(fires) - len(skipped)
    doomed = going[: max(0, len(going) + kept - parallel)] if fires else []
    return Ruled(
        dict.fromkeys(skipped, NEWER),
        {flow.id: NEWER for flow in doomed if flow.state is FlowState.WAITING},
        {flow.id: NEWER for flow in doomed if flow.state is not FlowState.WAITING},
    )


def startable(parallel: int, live: Iterable[Live], now: int) -> list[int]:
    """The numbers of the waiting flows of one pipeline that may begin now, in their order.

    Those of schedules and of people begin in the order of their fires, `parallel` at once. Those of backfills have
    places of their own, and begin only while no other one waits for its turn.
    """
    flows = sorted(live, key=_in_order)
    backfills = [flow for flow in flows if flow.kind is FlowKind.BACKFILL]
    others = [flow for flow in flows if flow.kind is not FlowKind.BACKFILL]
    due = [flow.id for flow in others if flow.state is FlowState.WAITING and flow.due_at <= now]
    begin = due[: max(0, parallel - _begun(others))]
    if len(begin) < len(due):
        return begin
    at_once = _begun(backfills)
    for flow in backfills:
        if flow.state is FlowState.WAITING and at_once < flow.parallel:
            begin.append(flow.id)
            at_once += 1
    return begin


class BackfillPace(NamedTuple):
    """How far the flows of one backfill are, of which `parallel` run at once. Times are microseconds."""

    parallel: int
    waiting: int
    begun: int
    """So many run, or are held."""

    begun_us: int
    """For how long these have, added up."""

    ended: int
    ended_us: int
    """How long these took, added up."""


def backfill_left_us(pace: BackfillPace) -> int | None:
    """How long until the last of them ends, if each takes as long as those that have ended did. None before one has,
    and where all that are left take longer.
    """
    left = pace.waiting + pace.begun
    if not pace.ended or not left:
        return None
    each_us = pace.ended_us / pace.ended
    work_us = pace.waiting * each_us + max(0.0, pace.begun * each_us - pace.begun_us)
    return round(work_us / min(pace.parallel, left)) or None


def _begun(flows: Iterable[Live]) -> int:
    return sum(flow.state in BEGUN for flow in flows)


def _in_order(flow: Live) -> tuple[int, int]:
    return flow.fire_at, flow.id
