"""The requests of one operation by what was answered, and how long the answers took."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from orchestrator.core.samples.buckets import REQUEST_BOUNDS_S, GrowingHistogram
from orchestrator.units import SECOND_US

NO_ANSWER: Final = "none"
TOO_MANY: Final = 429
CODES: Final = ("2xx", "3xx", "4xx", str(TOO_MANY), "5xx", NO_ANSWER)
"""What an answer is counted as."""


def code_of(status: int) -> str:
    """What an answer of this status is counted as; one that is no HTTP status is as good as none."""
    if status == TOO_MANY:
        return str(TOO_MANY)
    found = f"{status // 100}xx"
    return found if found in CODES else NO_ANSWER


class RequestCounts:
    """Of one operation, as the answers come."""

    __slots__ = ("_codes", "latency")

    def __init__(self) -> None:
        self._codes = Counter[str]()
        self.latency = GrowingHistogram(REQUEST_BOUNDS_S)

    def answered(self, status: int, took_us: int) -> None:
        """An answer was read to its end."""
        self._codes[code_of(status)] += 1
        self.latency.add(took_us / SECOND_US)

    def unanswered(self) -> None:
        """No answer came, or there was no way to the service."""
        self._codes[NO_ANSWER] += 1

    @property
    def codes(self) -> Mapping[str, int]:
        """So many were counted as each."""
        return dict(self._codes)
