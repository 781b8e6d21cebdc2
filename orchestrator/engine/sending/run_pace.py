"""How fast the jobs of a run end, of late, and whether that is soon enough."""

import math
from collections import deque
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from orchestrator.clock import local_zone
from orchestrator.core.gates import brake_gates as rules
from orchestrator.core.gates.brake_gates import DeadlineFacts
from orchestrator.core.planning.forecast import ExecutionSample, TimesSource
from orchestrator.core.planning.observed_times import ObservedExecution
from orchestrator.engine.runtime.progress import Progress
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MILLISECOND_US, MINUTE_US, SECOND_US

RATED_FROM: Final = 20
"""From so many ends on it is told how fast a run goes."""

RATE_WINDOW_US: Final = 10 * MINUTE_US
LATE_WARNING_EVERY_US: Final = 10 * MINUTE_US

TIMED_MAX: Final = 100
"""What a job takes is told by so many executions, the latest ones: it may change in a night."""

TIMED_MIN: Final = 3
"""Of fewer nothing is concluded."""


class RunPace:
    """Of one run. Times are microseconds UTC."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._zone = local_zone()
        self._ends: deque[int] = deque()
        self._timed: deque[tuple[int, bool]] = deque(maxlen=TIMED_MAX)
        """What executions took, in milliseconds, and whether their jobs had an outcome with that."""

        self._warned_at: int | None = None
        self._late_at: dict[int, float] = {}
        """By how much it is late by turns at which endpoint."""

        self.late_in_turn_us: int | None = None
        """See `DeadlineFacts`; of a pool where it is the least, once all of its members that are well have said it."""

        self.sending_since: int | None = None
        """When the first of its jobs was claimed, as far as this process knows."""

    def late_at(self, endpoint: int, late_us: float | None, *, among: Collection[int] = ()) -> None:
        """By so much it is late by its turns at that endpoint, one of those `among` which its jobs are shared; None: it
        is not, there.
        """
        if late_us is None:
            self._late_at.pop(endpoint, None)
        else:
            self._late_at[endpoint] = late_us
        known = [self._late_at[each] for each in among if each in self._late_at]
        self.late_in_turn_us = math.ceil(min(known)) if known and len(known) == len(among) else None

    def on_end(self, now: int) -> None:
        """A job has its outcome."""
        self._ends.append(now)
        self._forget_old(now)

    def on_execution(self, took_ms: int, *, is_last: bool) -> None:
        """An execution has ended, with which its job has an outcome or not."""
        self._timed.append((took_ms, is_last))

    def recall(self, executions: Iterable[ObservedExecution]) -> None:
        """Begins with what an earlier process, or other runs, have seen, the newest first."""
        if not self._timed:
            for each in reversed(list(islice(executions, TIMED_MAX))):
                self._timed.extend([(each.execution_ms, False)] * (each.executions - 1))
                self._timed.append((each.execution_ms, True))

    @property
    def times(self) -> ExecutionSample | None:
        """What a job takes a worker; None while too little is known."""
        ended = sum(is_last for _, is_last in self._timed)
        if len(self._timed) < TIMED_MIN or not ended:
            return None
        return ExecutionSample(
            executions_us=tuple(sorted(took_ms * MILLISECOND_US for took_ms, _ in self._timed)),
            per_job=len(self._timed) / ended,
            source=TimesSource.HISTORY,
        )

    @property
    def left(self) -> int:
        """Jobs without an outcome."""
        return self._progress.unfinished

    def deadline(self, settings: RunSettings, now: int, *, typical_us: int | None = None) -> DeadlineFacts | None:
        """For the rule of when it is to be finished, where it is to be; an execution takes `typical_us`."""
        if not settings.finish_by:
            return None
        return DeadlineFacts(
            finish_by=settings.finish_by,
            stops_late=settings.stop_late,
            left=self.left,
            at_service=self._progress.at_service,
            jobs_per_s=self._per_s(now),
            typical_us=typical_us,
            late_in_turn_us=self.late_in_turn_us,
            zone=self._zone,
        )

    def lateness(self, settings: RunSettings, now: int) -> str | None:
        """That it will probably be late, for people, now and then; None where that need not be said."""
        deadline = self.deadline(settings, now)
        late = None if deadline is None else rules.lateness(deadline, now)
        if late is None or (self._warned_at is not None and now < self._warned_at + LATE_WARNING_EVERY_US):
            return None
        self._warned_at = now
        return late

    def _per_s(self, now: int) -> float | None:
        """Jobs that end in a second; None while too few have."""
        self._forget_old(now)
        if len(self._ends) < RATED_FROM:
            return None
        since = max(self.sending_since or self._ends[0], now - RATE_WINDOW_US)
        return len(self._ends) * SECOND_US / max(now - since, SECOND_US)

    def _forget_old(self, now: int) -> None:
        while self._ends and self._ends[0] <= now - RATE_WINDOW_US:
            self._ends.popleft()
