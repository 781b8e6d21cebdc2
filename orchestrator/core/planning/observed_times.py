"""What an endpoint's latest executions tell of those to come: how long they take, on how many workers, and how long it
takes the first of these to start. Times are microseconds.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.planning.forecast import ExecutionSample, TimesSource, Workers
from orchestrator.units import MILLISECOND_US, SECOND_US

IDLE_US: Final = 30 * SECOND_US
"""Who comes after nothing was executed for so long may have to wait for a worker to start."""

UNSURE_US: Final = SECOND_US
"""So much too early an execution may seem to have begun: its request was on its way for nobody knows how long."""

ENOUGH: Final = 3
"""From fewer executions nothing is concluded."""


class ObservedExecution(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One execution that has ended, as the service told of it, and how often its job was executed in all."""

    sent_at: int
    delay_ms: int
    execution_ms: int
    executions: int = 1
    has_failed: bool = False
    worker: str | None = None
    """Who had it, where the service told."""

    @property
    def begun_at(self) -> int:
        """When a worker had it."""
        return self.sent_at + self.delay_ms * MILLISECOND_US

    @property
    def ended_at(self) -> int:
        """When it was over."""
        return self.begun_at + self.execution_ms * MILLISECOND_US


class Experience(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an endpoint by its executions."""

    times: ExecutionSample
    workers: Workers
    """So many were seen at work at once; there may be more that had nothing to do."""

    were_all_busy: bool
    """Whether jobs waited in the endpoint's queue meanwhile: then there are no more workers than were seen."""


def experience(executions: Sequence[ObservedExecution], source: TimesSource = TimesSource.HISTORY) -> Experience | None:
    """What `executions` tell; None where they are too few."""
    if len(executions) < ENOUGH:
        return None
    times = ExecutionSample(
        executions_us=tuple(sorted(each.execution_ms * MILLISECOND_US for each in executions)),
        per_job=sum(each.executions for each in executions) / len(executions),
        source=source,
    )
    firsts = [each for each in executions if each.executions == 1]  # of others nobody knows when the last one began
    begun = sorted(firsts or executions, key=lambda each: each.begun_at)
    waited = sum(each.delay_ms * MILLISECOND_US > SECOND_US for each in begun)
    return Experience(
        times=times,
        workers=Workers(most=_at_once(begun), start_us=_start_us(begun)),
        were_all_busy=waited > len(begun) // 2,
    )


def _at_once(begun: Sequence[ObservedExecution]) -> int:
    """How many were under way at once, of a worker no more than it surely had at once.

    Who has one after the other seems to have two of them for as long as the request of the later one took longer.
    """
    of_worker: dict[str | None, list[ObservedExecution]] = defaultdict(list)
    for each in begun:
        of_worker[each.worker].append(each)
    room = {worker: max(1, _most(each, less_us=UNSURE_US)) for worker, each in of_worker.items()}
    room[None] = len(begun)  # of these nobody knows whose they were
    return _most(begun, room)


def _most(begun: Sequence[ObservedExecution], room: Mapping[str | None, int] | None = None, *, less_us: int = 0) -> int:
    """How many were under way at once where each took `less_us` less, and a worker has `room` for so many."""
    most = now = 0
    has: Counter[str | None] = Counter()
    under_way: list[tuple[int, int, str | None]] = []
    for number, each in enumerate(begun):
        while under_way and under_way[0][0] <= each.begun_at:
            *_, worker = heapq.heappop(under_way)
            has[worker] -= 1
            now -= room is None or has[worker] < room[worker]
        heapq.heappush(under_way, (each.ended_at - less_us, number, each.worker))
        has[each.worker] += 1
        now += room is None or has[each.worker] <= room[each.worker]
        most = max(most, now)
    return most


def _start_us(begun: Sequence[ObservedExecution]) -> int:
    """How long a worker takes to start, by those that came after nothing had been executed for a while."""
    firsts: list[int] = []
    ended_at = 0
    for each in begun:
        if each.sent_at > ended_at + IDLE_US:
            firsts.append(each.delay_ms * MILLISECOND_US)
        ended_at = max(ended_at, each.ended_at)
    return sorted(firsts)[len(firsts) // 2] if firsts else 0
