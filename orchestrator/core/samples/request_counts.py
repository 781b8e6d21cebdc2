"""The requests of one operation by what was answered, and how long the answers took."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from orchestrator.core.samples.buckets import REQUEST_BOUNDS_S, GrowingHistogram, Histogram
from orchestrator.units import SECOND_US

NO_ANSWER: Final = "none"
TOO_MANY: Final = 429
CODES: Final = ("2xx", "3xx", "4xx", str(TOO_MANY), "5xx", NO_ANSWER)
"""What an answer is counted as."""

SORTED_AT: Final = 5_000
"""So many answers are kept unsorted at most."""


def code_of(status: int) -> str:
    """What an answer of this status is counted as; one that is no HTTP status is as good as none."""
    if status == TOO_MANY:
        return str(TOO_MANY)
    found = f"{status // 100}xx"
    return found if found in CODES else NO_ANSWER


class RequestCounts:
    """Of one operation, as the answers come. They are sorted once somebody looks: each request pays next to nothing."""

    __slots__ = ("_answers", "_codes", "_latency")

    def __init__(self) -> None:
        self._codes = Counter[str]()
        self._latency = GrowingHistogram(REQUEST_BOUNDS_S)
        self._answers: list[tuple[int, int]] = []

    def answered(self, status: int, took_us: int) -> None:
        """An answer was read to its end."""
        self._answers.append((status, took_us))
        if len(self._answers) >= SORTED_AT:
            self._sort()

    def unanswered(self) -> None:
        """No answer came, or there was no way to the service."""
        self._codes[NO_ANSWER] += 1

    def _sort(self) -> None:
        for status, n in Counter(status for status, _ in self._answers).items():
            self._codes[code_of(status)] += n
        self._latency.add_all([took_us for _, took_us in self._answers], SECOND_US)
        self._answers.clear()

    @property
    def codes(self) -> Mapping[str, int]:
        """So many were counted as each."""
        self._sort()
        return dict(self._codes)

    @property
    def latency(self) -> Histogram:
        """How long the answers took."""
        self._sort()
        return self._latency.values
