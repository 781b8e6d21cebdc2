"""The limits that the service tells with its answers (contract of pods, Limits).

`RateLimit` says for each window how many requests remain and when it resets, `RateLimit-Policy` how many it takes and
how long it is.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from orchestrator.core.structured_fields import Member, parse_list
from orchestrator.units import SECOND_US

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
