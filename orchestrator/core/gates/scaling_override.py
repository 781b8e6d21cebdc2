"""How many workers an endpoint may have (autoscaling bounds) while runs want more of them, and afterwards.

Bounds are raised for as long as a run wants it, and put back where they are still what they were raised to: a person
who has changed one of them meanwhile has the last word about it. They are lowered only for runs all of which want as
many as they need.
"""

from collections.abc import Iterable

import msgspec


class Bounds(msgspec.Struct, frozen=True):
    """At least and at most so many workers."""

    least: int
    most: int

    def __str__(self) -> str:
        return f"{self.least:,} to {self.most:,} workers"


class WorkerRange(msgspec.Struct, frozen=True):
    """How many workers an endpoint may have at most is to be decided between these, by what its runs need."""

    least: int
    most: int


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
    former: Bounds | None = None
    """What they were raised to until then, while nobody knows whether the account has carried it out."""


class RaisedWorkers(msgspec.Struct, frozen=True, kw_only=True):
    """Of an endpoint, whose bounds were not put back: its workers are paid, whoever uses them."""

    endpoint: str
    service_url: str
    before: Bounds
    raised: Bounds
    since: int
    """Microseconds UTC."""


def raised(
    before: Bounds, wanted: Iterable[WantedWorkers], needed: int | None = None, *, may_be_fewer: bool = False
) -> Bounds:
    """The bounds that satisfy all that is wanted: the largest of each wins. `needed`: so many are needed besides; where
    `may_be_fewer`, all runs there want as many as are needed, and no more.
    """
    least, most = before.least, before.most
    for each in wanted:
        least = max(least, each.least or 0)
        most = max(most, each.most or 0)
    if needed is None:
        return Bounds(least, max(least, most))
    most = needed if may_be_fewer else max(most, needed)
    return Bounds(min(least, most), most)


def is_changed_by_hand(override: ScalingOverride, now: Bounds) -> bool:
    """Whether a person has changed the bounds since they were raised, or were to be."""
    ours = (override.before, *_raised_to(override))
    return now.least not in {each.least for each in ours} or now.most not in {each.most for each in ours}


def restored(override: ScalingOverride, now: Bounds) -> Bounds:
    """What they are to be afterwards: as before, but for what a person has changed."""
    ours = _raised_to(override)
    least = override.before.least if now.least in {each.least for each in ours} else now.least
    most = override.before.most if now.most in {each.most for each in ours} else now.most
    return Bounds(least, most) if least <= most else now


def _raised_to(override: ScalingOverride) -> tuple[Bounds, ...]:
    return (override.raised,) if override.former is None else (override.former, override.raised)
