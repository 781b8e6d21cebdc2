"""How many workers an endpoint may have (autoscaling bounds) while runs want more of them, and afterwards.

Bounds are raised for as long as a run wants it, never lowered, and put back where they are still what they were raised
to: a person who has changed one of them meanwhile has the last word about it.
"""

from collections.abc import Iterable

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """At least and at most so many workers."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least:,} to {self.most:,} workers"


class WantedWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """What a run wants of its endpoint's bounds; None: as they are."""

    least: int | None = None
    most: int | None = None

    @property
    def is_any(self) -> bool:
        """Whether it wants anything."""
        return self.least is not None or self.most is not None


class ScalingOverride(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of an endpoint before they were raised, and what they were raised to."""

    before: Bounds
    raised: Bounds


class RaisedWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """Of an endpoint, whose bounds were not put back: its workers are paid, whoever uses them."""

    endpoint: str
    service_url: str
    before: Bounds
    raised: Bounds
    since: int
    """Microseconds UTC."""


def raised(before: Bounds, wanted: Iterable[WantedWorkers]) -> Bounds:
    """The bounds that satisfy all that is wanted: the largest of each wins."""
    least, most = before.least, before.most
    for each in wanted:
        least = max(least, each.least or 0)
        most = max(most, each.most or 0)
    return Bounds(least, max(least, most))


def is_changed_by_hand(override: ScalingOverride, now: Bounds) -> bool:
    """Whether a person has changed the bounds since they were raised, or were to be."""
    return now.least not in (override.before.least, override.raised.least) or now.most not in (
        override.before.most,
        override.raised.most,
    )


def restored(override: ScalingOverride, now: Bounds) -> Bounds:
    """What they are to be afterwards: as before, but for what a person has changed."""
    least = override.before.least if now.least == override.raised.least else now.least
    most = override.before.most if now.most == override.raised.most else now.most
    return Bounds(least, most) if least <= most else now
