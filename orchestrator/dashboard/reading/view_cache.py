"""The cache of views: what is shown is computed once for all who look at it, so that many tabs cost what one does."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import anyio

from orchestrator.dashboard.reading.ledger_reader import LedgerReader, Version
from orchestrator.units import SECOND_US

FRESH_US: Final = 2 * SECOND_US
"""So long nothing is computed again, whatever has changed."""

UNCHANGED_US: Final = 10 * SECOND_US
"""So long a view stays that of a ledger in which nothing has changed: what it says of the time changes all the same."""

VIEWS_MAX: Final = 16
"""So many of the views that were asked for last are kept: few are looked at, and one with charts is half a megabyte."""

V = TypeVar("V")


@dataclass(eq=False)
class CachedView(Generic[V]):
    """A view, and what was made of it."""

    view: V
    at: int
    """When it was computed."""

    holder: str | None
    bodies: dict[Hashable, bytes] = field(default_factory=dict)
    """What it looks like, by the way in which it was asked for."""


@dataclass(eq=False)
class _Place(Generic[V]):
    turn: anyio.Lock = field(default_factory=anyio.Lock)
    cached: CachedView[V] | None = None
    version: Version | None = None


class ViewCache(Generic[V]):
    """The views of one ledger by what is asked."""

    def __init__(self, reader: LedgerReader) -> None:
        self._reader = reader
        self._places: OrderedDict[Hashable, _Place[V]] = OrderedDict()

    async def get(self, key: Hashable, compute: Callable[[int, str | None], Awaitable[V]]) -> CachedView[V]:
        """The view of that key: as it is kept, or from `compute`, which is told the time and who works on the ledger.

        Who asks while it is computed waits for that. What `compute` raises is raised, and not kept.
        """
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        if len(self._places) > VIEWS_MAX:
            self._places.popitem(last=False)
        async with place.turn:
            cached = place.cached
            if cached is not None and await self._holds(place, cached):
                return cached
            version = await self._reader.version()  # before the view: what comes between is looked at once more
            now, holder = self._reader.now(), await self._reader.holder()
            place.cached = CachedView(await compute(now, holder), now, holder)
            place.version = version
            return place.cached

    def forget(self) -> None:
        """Computes everything anew: somebody has done something, and wants to see it."""
        self._places.clear()

    def forget_one(self, key: Hashable) -> None:
        """Does not keep that one: it is large, and asked for once."""
        self._places.pop(key, None)

    async def _holds(self, place: _Place[V], cached: CachedView[V]) -> bool:
        age = self._reader.now() - cached.at
        return age < FRESH_US or (age < UNCHANGED_US and await self._reader.version() == place.version)
