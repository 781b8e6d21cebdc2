"""When to look again, with growing pauses (backoff), at what stands still until somebody mends it. Times are
microseconds UTC.
"""

from typing import Final

from orchestrator.units import MINUTE_US, SECOND_US

PAUSE_US_MIN: Final = 30 * SECOND_US
"""Nobody mends a key or an endpoint sooner."""

PAUSE_US_MAX: Final = 10 * MINUTE_US
"""As long as it takes to notice, at the worst, that it was mended."""


class Probing:
    """Looks at pauses that double. Where going on comes to nothing again they grow further, until something works."""

    def __init__(self) -> None:
        self._pause_us = 0
        self.due_at: int | None = None
        """When to look; None while nothing stands still."""

        self.why: tuple[int, str] | None = None
        """Since when it stands still, or did until something seemed to be mended, and for what reason; None once
        something has worked.
        """

        self.status: int | None = None
        """The status of the answers that it stands still for."""

    def stop(self, now: int, why: str, status: int | None = None) -> None:
        """It stands still from `now` on."""
        self.why, self.status = (now, why), status
        self.wait(now)

    def wait(self, now: int) -> None:
        """It stands still, as was found at `now`."""
        self._pause_us = min(max(2 * self._pause_us, PAUSE_US_MIN), PAUSE_US_MAX)
        self.due_at = now + self._pause_us

    def go_on(self) -> None:
        """It seems to be mended."""
        self.due_at = None

    def works(self) -> None:
        """It is mended indeed."""
        self._pause_us, self.due_at, self.why, self.status = 0, None, None, None
