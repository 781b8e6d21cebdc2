"""How long a request has to wait for the rate limits of the REST interface, as its `RateLimit` headers tell them
(contract of pods, Limits).

The limits hold for a user, so whatever else that user runs takes from the same windows: the last request of a window is
left to others. A window whose reset has passed says nothing any more.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.core.limits.ratelimit_headers import Window

RESERVE: Final = 1
"""Requests of each window that we leave."""


class RateQuota:
    """What is known of a user's windows. Pure: times are arguments (microseconds UTC)."""

    def __init__(self) -> None:
        self._windows: Mapping[str, Window] = {}
        self._taken = 0
        self._refused_until = 0

    @property
    def windows(self) -> tuple[Window, ...]:
        """As last told; empty for a caller who is exempt from limits."""
        return tuple(self._windows.values())

    def take(self) -> None:
        """A request leaves."""
        self._taken += 1

    def ended(self) -> None:
        """A request that left has its answer, or will have none."""
        self._taken -= 1

    def observe(self, windows: Iterable[Window]) -> None:
        """An answer told `windows`. One without any tells nothing (a 401 does not, nor a gateway's 502)."""
        if found := {window.name: window for window in windows}:
            self._windows = found

    def refused(self, until_at: int) -> None:
        """A 429 asked us to wait until then."""
        self._refused_until = max(self._refused_until, until_at)

    def wait(self, now: int) -> tuple[int, str]:
        """How long the next request has to wait (microseconds), and because of what; 0 and "" if it may leave now."""
        waits = [(self._refused_until - now, "the service asked for it (429)")]
        waits += [
            (window.reset_at - now, f"the {window.name} window of the rate limit is nearly used up")
            for window in self._windows.values()
            if window.remaining is not None and window.reset_at is not None
            if window.remaining - self._taken <= RESERVE
        ]
        wait_us, reason = max(waits)
        return (wait_us, reason) if wait_us > 0 else (0, "")
