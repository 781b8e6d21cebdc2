"""What stops one run and no other: executions that fail in a row (a streak), and variables that its jobs need and
nobody has set.

Times are microseconds UTC.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Final

from orchestrator.core.gates.gates import RunFacts
from orchestrator.core.gates.probe_backoff import Probing

EARLY_MIN: Final = 20
"""So many executions have to have ended before anything is said."""

EARLY_MAX: Final = 200
"""What happens after so many is no longer a bad beginning."""

FAILED_SHARE: Final = 0.9
"""More than this share of the first executions failed: the worker or the input is to blame, not chance."""


class Alarm(Enum):
    """What a run of failures means."""

    EARLY = auto()
    """Nearly all of the first executions have failed. Said once."""

    ENOUGH = auto()
    """As many in a row as the user wanted to see at the most."""


class Streak:
    """The ends of one run's executions, in the order in which this process learned of them."""

    def __init__(self) -> None:
        self.ended = 0
        self.failed = 0
        self.in_row = 0
        self._told = False

    def observe(self, *, failed: bool, stop_after: int | None) -> Alarm | None:
        """Takes in the end of one execution; `stop_after` failures in a row are enough (None: never)."""
        self.ended += 1
        self.failed += failed
        self.in_row = self.in_row + 1 if failed else 0
        if stop_after is not None and self.in_row >= stop_after:
            return Alarm.ENOUGH
        if self._told or not EARLY_MIN <= self.ended <= EARLY_MAX or self.failed <= FAILED_SHARE * self.ended:
            return None
        self._told = True
        return Alarm.EARLY


class RunHealth:
    """Of one run, in one process."""

    def __init__(self) -> None:
        self.streak = Streak()
        self._stopped: str | None = None
        self._lacks: str | None = None
        self._names: Sequence[str] = ()
        self._probing = Probing()

    @property
    def why_stopped(self) -> str | None:
        """Why going on submitting its jobs is pointless, if so."""
        return self._stopped or self._lacks

    def stop(self, reason: str) -> bool:
        """Enough have failed; returns whether that is news."""
        is_news, self._stopped = self._stopped is None, self._stopped or reason
        return is_news

    def lack(self, reason: str, names: Sequence[str], now: int) -> bool:
        """The variables `names` were not set when a job needed them; returns whether that is news."""
        if self._lacks is not None:
            return False
        self._lacks, self._names = reason, names
        self._probing.wait(now)
        return True

    def look_again(self, now: int, is_set: Callable[[str], bool]) -> bool:
        """Looks for what is lacking, when it is time for that; returns whether it is there again."""
        if self._probing.due_at is None or now < self._probing.due_at:
            return False
        if not all(map(is_set, self._names)):
            self._probing.wait(now)
            return False
        self._lacks = None
        self._probing.works()
        return True

    def facts(self, *, cancelled: bool, paused: bool) -> RunFacts:
        """For the gates, with what people have asked of the run."""
        return RunFacts(
            cancelled=cancelled,
            paused=paused,
            stopped=self._stopped,
            lacks=self._lacks,
            lacks_until=self._probing.due_at,
        )
