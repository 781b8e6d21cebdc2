"""Whether executions fail at one member of a pool alone: then that says something of the member, not of the rows."""

from collections import deque
from collections.abc import Iterable
from itertools import takewhile
from typing import Final

from orchestrator.core.gates.ended_executions import FAILED
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition

LATEST: Final = 16
"""So many executions are looked at of each member, the latest ones."""

FEWEST: Final = 4
"""Of fewer nothing is said. So many must all have failed; of more, one in three beyond them need not."""

ALONE: Final = 2
"""Its executions must fail so many times as often as those at the others."""

_ENDS: Final = frozenset({Event.RETRIED, Event.ABANDONED, Event.CONTINUED})


class LatestOutcomes:
    """Of one run at one member."""

    def __init__(self) -> None:
        self._are_failed: deque[bool] = deque(maxlen=LATEST)

    def add(self, *, is_failed: bool) -> None:
        """One more execution has ended."""
        self._are_failed.append(is_failed)

    def forget(self) -> None:
        """What was until now says nothing of what will be."""
        self._are_failed.clear()

    @property
    def ended(self) -> int:
        """How many are looked at."""
        return len(self._are_failed)

    @property
    def failed(self) -> int:
        """How many of them have failed."""
        return sum(self._are_failed)

    @property
    def failed_last(self) -> int:
        """How many of them have failed since the last that has not."""
        return sum(takewhile(bool, reversed(self._are_failed)))


def execution_failed(step: Transition) -> bool | None:
    """Whether the execution that `step` ends has failed; None where it ends none, or says nothing of whether it did."""
    if step.event is Event.COMPLETED:
        return None if step.outcome is None or step.outcome.submission is None else False
    if step.event not in _ENDS:
        return None
    if step.trouble is None:  # a segment that was given back as it should be
        return False
    return True if step.trouble in FAILED else None


def fails_alone(own: LatestOutcomes, others: Iterable[LatestOutcomes]) -> bool:
    """Whether nearly all executions fail at a member, by its `own`, while at the `others` they do not."""
    if own.ended < FEWEST or own.failed < own.ended - (own.ended - FEWEST) // 3:
        return False
    beside = list(others)
    ended, failed = sum(each.ended for each in beside), sum(each.failed for each in beside)
    return ended >= FEWEST and ALONE * failed * own.ended <= own.failed * ended
