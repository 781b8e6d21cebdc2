"""How often a wrong key may be tried before none is looked at for a while (brute force)."""

from collections import deque
from typing import Final

from orchestrator.clock import Clock
from orchestrator.units import MINUTE_US

WRONG_MAX: Final = 5
"""So many wrong keys a minute; with one more no key is looked at until a minute after the first of them."""


class WrongKeys:
    """Those of all who ask: where they ask from is easily changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wrong: deque[int] = deque(maxlen=WRONG_MAX)

    @property
    def are_too_many(self) -> bool:
        """Whether none is looked at for now."""
        return len(self._wrong) == WRONG_MAX and self._clock.now() - self._wrong[0] < MINUTE_US

    def add(self) -> None:
        """One was wrong."""
        self._wrong.append(self._clock.now())
