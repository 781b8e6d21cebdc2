"""Which shards a process takes, asks for and gives away, so that all who serve a ledger have about as many.

Each decides for itself, by what it last saw; who sees the same comes to the same. Whoever has the fewest comes first,
so that two seldom bid for one. What is not taken by whose turn it is (it may not be able to) is anybody's soon.

Whoever lacks something to serve a shard leaves it to those that do not. Where all lack something one of them has it all
the same: results are collected there, and what people ask is done, though nothing may be sent. Who lacks less asks for
it: it goes from one to the other, and is free at no time.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from orchestrator.units import SECOND_US

LEFT_OVER_US: Final = 2 * SECOND_US
"""What nobody has taken for so long is anybody's."""

LEFT_LONG_US: Final = 3 * SECOND_US
"""What nobody has taken for so long is also for who stands back: all others have had their chance."""

LEFT_TO_ANY_US: Final = 10 * SECOND_US
"""What nobody has taken for so long is also for who lacks something to serve it: nobody else can."""

SETTLED_US: Final = 10 * SECOND_US
"""Whoever has been there for so long asks for what it can serve better than others: one that ends as soon as it has
begun, again and again, does not take down what works."""

ASK_US: Final = 30 * SECOND_US
"""A process that has fewer than another one asks for a shard each so often: each that goes over stands still for a
moment."""

LET_GO_US: Final = 15 * SECOND_US
"""A shard that nothing needs any more is kept for so long: what follows upon a run is often at the same endpoint."""

FEWER: Final = 2
"""By so many: with one less between them nobody gains anything."""

KEEPERS: Final = 0
"""The shard of what belongs to no run. It is little work: it counts for nothing, and nobody asks for it."""


class Ability(Enum):
    """What a process can do with a shard."""

    SERVES = auto()
    UNKNOWN = auto()
    """Whether it lacks anything is still to be seen."""

    LACKS = auto()
    """It lacks something that is needed there."""

    NEVER = auto()
    """It was told to leave it to others."""


class Shard(NamedTuple):
    """As the ledger says."""

    number: int
    owner: int | None
    wanted_by: int | None = None
    """The process that gets it next."""

    is_needed: bool = True
    """Whether anything is to be done there; the keeper's always is."""

    is_unreached: bool = False
    """Whether it is ours, and to be handed over because we get no answer there; see `ServiceReach`."""

    ability: Ability = Ability.SERVES
    """What we can do with it."""

    lacks: int = 0
    """How many things we lack to serve it."""

    owner_lacks: int = 0
    """How many its owner does, as that said last."""


class Pair(NamedTuple):
    """Two shards that have come to be one: a run has endpoints of both."""

    low: int
    high: int


class Merging(NamedTuple):
    """What the owner of the lower one of each pair has to do."""

    take: list[int]
    """What nobody has, and is to become one with one of its own."""

    ask_for: list[int]
    """What others have."""

    merge: list[Pair]
    """Both are its own: they become the lower one once nothing goes on in them."""


def merging(me: int, shards: Iterable[Shard], pairs: Iterable[Pair]) -> Merging:
    """What the process `me` has to do so that `pairs` become one each. Whoever has the higher one of a pair gives it,
    and so no two wait for each other.
    """
    owners, found = {each.number: each.owner for each in shards}, Merging([], [], [])
    for pair in pairs:
        if owners.get(pair.low) is None and owners.get(pair.high) == me:
            found.take.append(pair.low)
        if owners.get(pair.low) == me:
            match owners.get(pair.high):
                case None:
                    found.take.append(pair.high)
                case owner if owner == me:
                    found.merge.append(pair)
                case _:
                    found.ask_for.append(pair.high)
    return found


class ShardBids:
    """Of the process `me`. Unless it `asks_for_more` it has what others leave."""

    def __init__(self, me: int, *, asks_for_more: bool = True) -> None:
        self._me = me
        self._asks_for_more = asks_for_more
        self._free_since: dict[int, int] = {}
        self._idle_since: dict[int, int] = {}
        self._asked_at: int | None = None
        self._began_at: int | None = None
        self.stands_back = False
        """Whether we ask for nothing, and take what none of the others has taken; see `ServiceReach`."""

    def to_take(self, shards: Collection[Shard], others: Collection[int], at: int) -> list[int]:
        """Those of `shards` to take at that time, where `others` are the processes that live besides us. What we have
        asked for is ours to take, also where nothing is to be done there any more: nobody else may.
        """
        free = [each for each in shards if _is_free(each)]
        self._free_since = {each.number: self._free_since.get(each.number, at) for each in free}
        unwanted = [each for each in free if each.wanted_by is None]
        for_us = sorted(each.number for each in unwanted if _can_be_served(each))
        held = _held(shards)
        turn = sorted((self._me, *others), key=lambda process: (held[process], process)).index(self._me)
        taken = {each.number for each in shards if each.owner is None and each.wanted_by == self._me}
        taken |= set() if self.stands_back else set(for_us[turn :: len(others) + 1])
        left_over_us = LEFT_LONG_US if self.stands_back else LEFT_OVER_US
        taken |= {number for number in for_us if at - self._free_since[number] >= left_over_us}
        left_to_any_us = LEFT_TO_ANY_US if others else 0
        taken |= {each.number for each in unwanted if at - self._free_since[each.number] >= left_to_any_us}
        return sorted(taken)

    def to_ask_for_as_better(self, shards: Iterable[Shard], others: Collection[int], at: int) -> list[int]:
        """Those to ask `others` for at that time, who lack more to serve them than we do."""
        if self._began_at is None:
            self._began_at = at
        if self.stands_back or at - self._began_at < SETTLED_US:
            return []
        return [
            each.number
            for each in shards
            if each.owner in others
            and each.wanted_by is None
            and _is_needed(each)
            and each.ability in (Ability.SERVES, Ability.LACKS)
            and each.lacks < each.owner_lacks
        ]

    def to_ask_for(self, shards: Collection[Shard], others: Collection[int], at: int) -> int | None:
        """The shard to ask another one for at that time; None where nobody has too many, or it is too soon."""
        is_soon = self._asked_at is not None and at - self._asked_at < ASK_US
        is_content = self.stands_back or not self._asks_for_more
        if is_content or is_soon or any(each.wanted_by == self._me or _is_for_us(each) for each in shards):
            return None
        held = _held(each for each in shards if each.is_needed)
        richest = max(others, key=lambda process: held[process], default=self._me)
        asked = [each.number for each in shards if each.owner == richest and _may_ask_for(each)]
        if held[richest] - held[self._me] < FEWER or not asked:
            return None
        self._asked_at = at
        return max(asked)

    def to_give(self, shards: Iterable[Shard], others: Collection[int]) -> list[int]:
        """Those that are ours and that one of the others asks for."""
        return [each.number for each in shards if each.owner == self._me and each.wanted_by in others]

    def to_let_go(self, shards: Iterable[Shard], at: int) -> list[int]:
        """Those that are ours at that time, and that nothing has needed for a while."""
        idle = [each.number for each in shards if each.owner == self._me and not _is_needed(each)]
        self._idle_since = {number: self._idle_since.get(number, at) for number in idle}
        return [number for number in idle if at - self._idle_since[number] >= LET_GO_US]


def _is_free(shard: Shard) -> bool:
    return shard.owner is None and _is_needed(shard) and shard.ability is not Ability.NEVER


def _is_for_us(shard: Shard) -> bool:
    return _is_free(shard) and _can_be_served(shard)


def _may_ask_for(shard: Shard) -> bool:
    return shard.wanted_by is None and shard.number != KEEPERS and shard.is_needed and _can_be_served(shard)


def _can_be_served(shard: Shard) -> bool:
    return shard.ability is Ability.SERVES


def _is_needed(shard: Shard) -> bool:
    return shard.is_needed or shard.number == KEEPERS


def _held(shards: Iterable[Shard]) -> Counter[int | None]:
    """How many each process has."""
    return Counter(each.owner for each in shards if each.number != KEEPERS)
