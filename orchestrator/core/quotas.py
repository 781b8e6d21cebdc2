"""The limits that the REST interface tells with its answers (contract of pods, Limits), and the wait they ask for.

`RateLimit` says for each window how many requests remain and when it resets, `RateLimit-Policy` how many it takes and
how long it is. The limits hold for a user, so whatever else that user runs takes from the same windows: the last
request of a window is left to others. A window whose reset has passed says nothing any more.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from orchestrator.core.structured_fields import Member, parse_list
from orchestrator.units import SECOND_US

RESERVE: Final = 1
"""Requests of each window that we leave."""

WHOLE_MAX: Final = 10**9
"""Larger counts and seconds are nonsense."""


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One window as last told. None: not told."""

    name: str
    remaining: int | None = None
    reset_at: int | None = None
    """When the window is full again, counted from when the answer came (microseconds UTC)."""
    quota: int | None = None
    window_s: int | None = None


def read_windows(limit: str | None, policy: str | None, answered_at: int) -> tuple[Window, ...]:
    """The windows that the two headers tell (None: no such header), in their order; what makes no sense is left out."""
    quotas = dict(_named(policy))
    windows = [
        Window(
            name=name,
            remaining=remaining,
            reset_at=answered_at + reset_s * SECOND_US,
            quota=_whole(quotas.get(name), "q"),
            window_s=_whole(quotas.get(name), "w"),
        )
        for name, member in _named(limit)
        if (remaining := _whole(member, "r")) is not None and (reset_s := _whole(member, "t")) is not None
    ]
    told = {window.name for window in windows}
    windows += [
        Window(name=name, quota=_whole(member, "q"), window_s=_whole(member, "w"))
        for name, member in quotas.items()
        if name not in told
    ]
    return tuple(windows)


def _named(header: str | None) -> Iterable[tuple[str, Member]]:
    members = parse_list(header) if header else None
    return ((member.value, member) for member in members or () if isinstance(member.value, str))


def _whole(member: Member | None, parameter: str) -> int | None:
    value = member.parameters.get(parameter) if member else None
    return value if type(value) is int and 0 <= value <= WHOLE_MAX else None


class Quotas:
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

    def told(self, windows: Iterable[Window]) -> None:
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
