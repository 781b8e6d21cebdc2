"""A member of a pool: one of the endpoints that do the same work for a run."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.costs import MILLISECONDS, DurationTotals
from orchestrator.core.lanes.via import Via
from orchestrator.units import MINUTE_US

SPILL_AFTER_US_DEFAULT: Final = 2 * MINUTE_US


class Prefer(StrEnum):
    """Which member a job goes to."""

    FAST = "fast"
    """Where it is expected to end soonest."""

    CHEAP = "cheap"
    """To the cheapest that has room."""


class MemberSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run's settings say of a member."""

    endpoint: str
    price_per_second: float | None = None
    """None: what the run says of all of them. So it is with the next."""

    budget_per_day: float | None = None
    via: Via | None = None
    path: str | None = None


def is_member(endpoint: str, members: Sequence[MemberSettings]) -> bool:
    """Whether `endpoint` is one of the `members` of a pool."""
    return any(each.endpoint == endpoint for each in members)


def former_members(before: Sequence[MemberSettings], members: Sequence[MemberSettings]) -> tuple[MemberSettings, ...]:
    """Those of `before` that are none of the `members` any more; of what is said twice of one, the last holds."""
    found = {each.endpoint: each for each in before}
    return tuple(each for name, each in found.items() if not is_member(name, members))


def lane_at(members: Sequence[MemberSettings], endpoint: str, via: Via, path: str) -> tuple[Via, str]:
    """By which lane jobs leave for `endpoint`, and for which path there: what is said of that member, else of all of
    them (`via`, with `path`).
    """
    said = _said_of(members, endpoint)
    return via if said.via is None else said.via, path if said.path is None else said.path


def price_at(members: Sequence[MemberSettings], endpoint: str, price: float | None) -> float | None:
    """What a second of execution costs at `endpoint`: what is said of that member, else of all of them (`price`)."""
    own = _said_of(members, endpoint).price_per_second
    return price if own is None else own


def dearest(members: Sequence[MemberSettings], price: float | None) -> float | None:
    """What a second of execution costs at the dearest of `members`, of which `price` is said of those that say nothing
    themselves: a budget is never passed by what was thought to be cheap. None where somebody's price is not known.
    """
    prices = [price if each.price_per_second is None else each.price_per_second for each in members] or [price]
    known = [each for each in prices if each is not None]
    return max(known) if len(known) == len(prices) else None


def discount(
    members: Sequence[MemberSettings],
    price: float | None,
    took: Mapping[str, DurationTotals],
    batch_discount: int | None = None,
) -> float:
    """By how much less what each endpoint executed costs than at the dearest of `members`, and in batches, where a
    second costs less by so many millionths, than by `/run`.
    """
    most = dearest(members, price)
    if most is None:
        return 0.0
    saved = 0.0
    for endpoint, part in took.items():
        own = price_at(members, endpoint, price)
        there = most if own is None else own
        saved += (most - there) * part.total_ms / MILLISECONDS + there * part.saved_s(batch_discount)
    return saved


def cheapest_first(members: Sequence[MemberSettings], price: float | None) -> tuple[str, ...]:
    """Their endpoints by their prices; of as cheap ones as they are named."""
    prices = {each.endpoint: price_at(members, each.endpoint, price) for each in members}
    return tuple(sorted(prices, key=lambda each: math.inf if (its := prices[each]) is None else its))


def budget_per_day_at(members: Sequence[MemberSettings], endpoint: str, budget: float) -> float:
    """What all runs may spend in a day at `endpoint`: what is said of that member, else of all of them (`budget`)."""
    own = _said_of(members, endpoint).budget_per_day
    return budget if own is None else own


def _said_of(members: Sequence[MemberSettings], endpoint: str) -> MemberSettings:
    return next((each for each in members if each.endpoint == endpoint), MemberSettings(endpoint))
