"""Whose turn it is among runs that share an endpoint: by weight, and nobody starves (stride scheduling).

Each run has a mark that moves on by what it sends, the less the more weight it has; the run whose mark is furthest
behind goes next. Who comes, or comes back, begins where the others are: it has no claim to what it did not ask for, and
goes next or nearly so.
"""

from collections.abc import Mapping
from typing import Final

PRIORITY_MAX: Final = 10
"""The highest priority, of a run among others as of a job within its run."""

PRIORITY_MIN: Final = -PRIORITY_MAX

STEP: Final = 1.25
"""How many times the weight of a run is that of one whose priority is one less."""


def weight_of(priority: int) -> float:
    """The weight of a run of `priority`, 1 for 0: at 10 it gets nine jobs for one of an ordinary run."""
    return STEP**priority


class FairShare:
    """The runs of one endpoint, by their numbers."""

    def __init__(self) -> None:
        self._marks: dict[int, float] = {}
        self._least = 0.0
        """Where the one was that went last: nobody who waits is behind."""

    def next(self, weights: Mapping[int, float]) -> int:
        """The run that goes next among those of `weights`, of which there must be one."""
        for run in weights:
            self._marks[run] = max(self._marks.get(run, 0.0), self._least)
        chosen = min(weights, key=lambda run: (self._marks[run], run))
        self._least = self._marks[chosen]
        return chosen

    def sent(self, run: int, jobs: int, weight: float) -> None:
        """`run`, which went, has taken so many `jobs`; it may be forgotten meanwhile."""
        if run in self._marks:
            self._marks[run] += jobs / weight

    def forget(self, run: int) -> None:
        """`run` will not come back."""
        self._marks.pop(run, None)
