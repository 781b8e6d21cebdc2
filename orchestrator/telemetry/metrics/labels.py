"""Which of the user's own names become labels: a series lasts for ever, so there are so many of each and no more.

Of endpoints and pipelines the oldest keep their names. Were it those in use, a name would come and go, and the counters
of what has none would fall with it.
"""

from collections.abc import Iterable
from typing import Final

ENDPOINTS_MAX: Final = 20
PIPELINES_MAX: Final = 50
RUNS_MAX: Final = 50
TARGETS_MAX: Final = 20

OTHER: Final = "other"
"""What all that are beyond are called."""


class ClosedLabel:
    """The values of one label: the first `most` of `names`, and `OTHER`."""

    def __init__(self, names: Iterable[str], most: int) -> None:
        self._kept = frozenset(list(dict.fromkeys(names))[:most])

    def __call__(self, name: str) -> str:
        """What is said of `name`."""
        return name if name in self._kept else OTHER

    def has(self, name: str) -> bool:
        """Whether it is called by its own name."""
        return name in self._kept
