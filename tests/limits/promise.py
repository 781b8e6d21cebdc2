"""What is promised of the limits, for the simulated and for the real measurement."""

from typing import Final

import msgspec

from orchestrator.core.limits.rate_pacer import Limit

WINDOWS: Final = 10
"""So many windows at full speed are measured."""


class RoundTrips(msgspec.Struct, frozen=True, kw_only=True):
    """How long requests take there and back, evenly spread, and how much of the allowance is then used at least."""

    least_ms: int
    most_ms: int
    use_percent_min: float

    def __str__(self) -> str:
        return f"{self.least_ms}-{self.most_ms} ms"


ROUND_TRIPS: Final = (
    RoundTrips(least_ms=60, most_ms=280, use_percent_min=97.5),
    RoundTrips(least_ms=60, most_ms=110, use_percent_min=98.8),
    RoundTrips(least_ms=1, most_ms=19, use_percent_min=99.0),
)


class Small(msgspec.Struct, frozen=True, kw_only=True):
    """A small limit, and how much of it is used at least with the first, the longest of the round trips."""

    limit: Limit
    use_percent_min: float

    def __str__(self) -> str:
        return f"{self.limit.requests}/{self.limit.window_s:g}"


SMALL: Final = (
    Small(limit=Limit(1, 1), use_percent_min=43.0),
    Small(limit=Limit(2, 10), use_percent_min=48.0),
    Small(limit=Limit(10, 10, 2), use_percent_min=76.0),
    Small(limit=Limit(30, 10), use_percent_min=90.0),
    Small(limit=Limit(100, 10, 20), use_percent_min=94.5),
)
"""Three of them are rows of the contract's table."""
