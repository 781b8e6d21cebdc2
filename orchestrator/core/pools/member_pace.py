"""How fast a member of a pool is.

While jobs wait there, executions end as fast as they can; while none do, nothing is known but that there was room. How
many are executed at once, of which the service tells, and how long an execution takes say how many end in a second,
however late their ends are heard of. Where it does not tell, the ends themselves do: of those that had waited, and by
when they ended, not when somebody heard of it.

What fails is done no faster for being over soon: only executions that end well count, and failed ones that take longer.
"""

from bisect import insort
from typing import Final

from orchestrator.core.service.health import Health
from orchestrator.units import SECOND_US

WAITED_US: Final = SECOND_US
"""Who waited for less than this, and for less than a quarter of an execution, found no queue worth speaking of."""

WINDOW_US: Final = 60 * SECOND_US
ENDS_MAX: Final = 256
"""Its speed is that of the latest ends: so many, and no older than the window."""

ENDS_MIN: Final = 8
EXECUTIONS_MIN: Final = 2
"""Of fewer ends no speed is made, nor of those within the time of fewer executions: workers that began together end
together.
"""

MEMORY: Final = 0.1
"""The weight of the latest execution in the mean."""

AT_ONCE_MEMORY: Final = 0.3
"""The same of what the service told last."""


class MemberPace:
    """Of one member. Times are microseconds."""

    def __init__(self) -> None:
        self.execution_us: float | None = None
        """What an execution takes, in the mean of late."""

        self._at_once: float | None = None
        self._by_ends_per_s: float | None = None
        self.ended = 0
        """Executions that have ended there."""

        self.succeeded = 0
        """Those of them that have not failed."""

        self._ends: list[int] = []
        self._since = 0
        """Nobody who ended before tells of a queue: after that there was none for a moment."""

    def observe(
        self, ended_at: int, *, waited_us: int | None, execution_us: int | None, is_failed: bool = False
    ) -> None:
        """An execution has ended; how long its job had waited and it took, as far as that was told."""
        self.ended += 1
        before = self.execution_us
        if is_failed:
            if before is None or execution_us is None or execution_us < before:
                return
        else:
            self.succeeded += 1
        if execution_us is not None:
            self.execution_us = execution_us if before is None else before + MEMORY * (execution_us - before)
        if is_failed:
            return
        if waited_us is None or ended_at < self._since:
            return
        if waited_us < min(WAITED_US, (self.execution_us or 0) / 4):
            self._since = ended_at
            self._ends = [each for each in self._ends if each > ended_at]
            return
        insort(self._ends, ended_at)
        since = self._ends[-1] - WINDOW_US
        while len(self._ends) > ENDS_MAX or (len(self._ends) > ENDS_MIN and self._ends[0] < since):
            del self._ends[0]
        took_us = self._ends[-1] - self._ends[0]
        if len(self._ends) >= ENDS_MIN and took_us > EXECUTIONS_MIN * (self.execution_us or 0):
            self._by_ends_per_s = (len(self._ends) - 1) * SECOND_US / took_us

    def observe_health(self, health: Health) -> None:
        """The service has told how the member stands."""
        queued, running = health.jobs.in_queue, health.jobs.in_progress
        if queued is None or not running:
            return
        if not queued:
            self._at_once = max(self._at_once or 0, running)  # there was room for more
        elif self._at_once is None:
            self._at_once = running
        else:
            self._at_once += AT_ONCE_MEMORY * (running - self._at_once)

    @property
    def per_s(self) -> float | None:
        """How many executions end in a second while jobs wait; None while that is not known."""
        if self._at_once is None or not self.execution_us:
            return self._by_ends_per_s
        return self._at_once * SECOND_US / self.execution_us
