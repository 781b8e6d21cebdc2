"""How a run stands, how fast it goes, and when it will be done (ETA): by the ledger's counts, and the steps since."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import anyio

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Unsaved
from orchestrator.core.jobs.lifecycle import TERMINAL, State, ended, unfinished
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS, counters
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.units import SECOND_US

RATE_WINDOW_US: Final = 20_000_000
"""Jobs a second are taken over this much of the past."""


class RecentEnds:
    """How many jobs have ended of late, by the time of `clock`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.now()
        self._ends: deque[tuple[int, int]] = deque()

    def add(self, jobs: int) -> None:
        """So many have ended now."""
        self._ends.append((self._clock.now(), jobs))

    def per_s(self) -> float | None:
        """How many do in a second; None where none has."""
        now = self._clock.now()
        while self._ends and self._ends[0][0] < now - RATE_WINDOW_US:
            self._ends.popleft()
        if not self._ends:
            return None
        since = max(self._since, now - RATE_WINDOW_US)
        return sum(n for _, n in self._ends) * SECOND_US / max(now - since, SECOND_US)


class Progress:
    """The counts of one run, and when it is finished."""

    def __init__(self, run: int, counts: Mapping[str, int], *, margin_min_s: float | None, clock: Clock) -> None:
        self._run = run
        self.clock = clock
        self._counts = Counter(counts)
        self._ends = RecentEnds(clock)
        self._is_counted = False
        self.margin_min_s = margin_min_s
        self._changed = anyio.Event()
        self.changes = 0
        """How often anything has changed."""

    def recount(self, counts: Mapping[str, int]) -> None:
        """Goes on from `counts`, the ledger's, in which every step until now is."""
        before, self._counts = self._ended, Counter(counts)
        if self._is_counted:  # what had ended before the first time says nothing of how fast it goes
            self._end(self._ended - before)
        self._is_counted = True
        self.nudge()

    def tally(self, name: str, n: int) -> None:
        """`n` more in a cumulative counter that no step of the feed raises."""
        self._counts[name] += n

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """Takes in the steps of a transaction."""
        ends = 0
        for step in taken:
            if step.after.run != self._run:
                continue
            self._counts[step.before.state.value] -= 1
            self._counts[step.after.state.value] += 1
            for name in counters(step):
                self._counts[name] += 1
            ends += step.after.state in TERMINAL
            if step.outcome is not None and step.outcome.margin_us is not None:
                margin_s = step.outcome.margin_us / SECOND_US
                self.margin_min_s = margin_s if self.margin_min_s is None else min(self.margin_min_s, margin_s)
        self._end(ends)
        self.nudge()

    def _end(self, jobs: int) -> None:
        if jobs > 0:
            self._ends.add(jobs)

    @property
    def _ended(self) -> int:
        return ended(self._counts)

    def count(self, name: str) -> int:
        """Jobs in the state `name`, or the cumulative counter of that name."""
        return self._counts[name]

    @property
    def to_be_saved(self) -> int:
        """Results of which members are to be made files of as the run is gone on with."""
        return sum(self._counts[why.value] for why in Unsaved if why.is_tried_again)

    @property
    def counts(self) -> dict[str, int]:
        """Jobs in each state."""
        return {state.value: self._counts[state.value] for state in State}

    @property
    def tallied(self) -> dict[str, int]:
        """Jobs in each state, and the cumulative counters, as the ledger counts them."""
        return dict(self._counts)

    @property
    def total(self) -> int:
        """All jobs."""
        return self.unfinished + self._ended

    @property
    def unfinished(self) -> int:
        """Jobs that have no outcome yet."""
        return unfinished(self._counts)

    @property
    def queued(self) -> int:
        """Jobs that are to be sent, now or later."""
        return self._counts[State.QUEUED.value]

    @property
    def at_service(self) -> int:
        """Jobs that the service may hold."""
        return sum(self._counts[state.value] for state in (State.SUBMITTING, State.UNCERTAIN, State.OUTSTANDING))

    @property
    def stands(self) -> tuple[int, ...]:
        """Another value once anything has moved: a job was taken by the service, failed there, or came to its end."""
        return self._ended, self._counts[State.OUTSTANDING.value], self._counts[FAILED_EXECUTIONS]

    def to_collect(self, *, adoptable: bool) -> int:
        """Jobs whose outcome may still come from the service; uncertain ones only if a webhook can adopt them."""
        return self.at_service - (0 if adoptable else self._counts[State.UNCERTAIN.value])

    def jobs_per_s(self) -> float | None:
        """Finished jobs a second of late; None before the first."""
        return self._ends.per_s()

    def eta_s(self) -> float | None:
        """Seconds until the run is finished at the present rate; None while there is no rate."""
        rate = self.jobs_per_s()
        return None if not rate else self.unfinished / rate

    async def change(self) -> None:
        """Waits for the next change."""
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition` holds, which only steps of the run (or `nudge`) can make true."""
        while not condition():
            await self._changed.wait()

    def nudge(self) -> None:
        """Makes whoever waits look again."""
        self.changes += 1
        self._changed.set()
        self._changed = anyio.Event()
