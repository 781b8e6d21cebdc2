"""Notices that a run's executions fail, most of them from the start or all of them of late, while they cost money."""

from enum import Enum, auto
from typing import Final

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
