"""What is promised of the limits, for the simulated and for the real measurement."""

from typing import Final

import msgspec

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
