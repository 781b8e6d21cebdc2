"""What became of the requests that left at one rate: how many were answered 429.

Shares are parts of the full rate, or of the requests. Times are microseconds, and arguments.
"""

from typing import Final

LEAST_MEASURED: Final = 10
"""The rate is measured by so many requests at least."""

SHARE_MIN: Final = 0.05
"""The rate is never cut below this share, or it would not find its way back."""


class RateSample:
    """The requests of one rate that were answered, and what was taken of late."""

    __slots__ = (
        "_first_at",
        "_last_at",
        "_rate_since",
        "per_window",
        "refusals",
        "refused",
        "requests",
        "since",
        "taken",
        "window_us",
    )

    def __init__(self) -> None:
        self.per_window = 1.0
        self.window_us = 1
        """The full rate: so many requests, evenly, in a window."""

        self.requests = self.refusals = 0
        """Of those that left `since`."""

        self.since = 0
        self.taken = self.refused = 0.0
        """In the last window: requests taken, share refused."""

        self._rate_since = 0
        self._first_at = self._last_at = 0  # when the first and the last of them left

    def begin(self, now: int) -> None:
        """The first request leaves."""
        self._rate_since = now

    def add(self, sent_at: int, refused: bool, taken: int, answered: int) -> None:
        """One more answer. Of the `answered` in the window that ends now, this one too, `taken` were taken."""
        if self.requests == 0:
            self._first_at = sent_at
        self._last_at = sent_at
        self.requests += 1
        self.refusals += refused
        self.taken, self.refused = taken, 1 - taken / answered

    def restart(self, now: int, *, is_other_rate: bool) -> None:
        """What left before is not counted any more."""
        if is_other_rate:
            self._rate_since = now
        self.since = now
        self.forget()

    def forget(self) -> None:
        """Counts anew, from the next answer on."""
        self.requests = self.refusals = 0

    @property
    def refused_share(self) -> float:
        """The share of the requests that was refused."""
        return self.refusals / self.requests

    def refused_share_with(self, share: float, requests: int) -> float:
        """The same with so many `requests` more, of which `share` was refused."""
        return (self.refusals + requests * share) / (self.requests + requests)

    @property
    def steady_us(self) -> int:
        """For how long the requests have left at this rate."""
        return self._last_at - self._rate_since

    def sent_share(self, share: float) -> float:
        """The share of the full rate at which requests have left, which may be less than `share`, as they might."""
        if self.requests < LEAST_MEASURED or self._last_at <= self._first_at:
            return share
        per_window = (self.requests - 1) * self.window_us / (self._last_at - self._first_at)
        return max(SHARE_MIN, min(share, per_window / self.per_window))

    def as_share(self, taken: float, stray: float) -> float:
        """The share of the full rate at which so many are taken in a window, beside the `stray` refusals."""
        return (taken - 0.5) / self.per_window / (1 - stray)
