"""Places for large bodies on the line, first come, first served; how many there are is `core.line`'s to say."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from orchestrator.clock import Clock
from orchestrator.core.limits.transfer_slots import Line

LARGE_BYTES: Final = 64 * 1024
"""A body up to this size needs no place: it is over before its place would be of use."""


async def _always() -> None:
    """There is room."""


class Place:
    """A place on the line for a body of `size` bytes, or what is expected of it. It must be left, once or more."""

    __slots__ = ("_is_left", "_moved", "_places", "_size")

    def __init__(self, places: "Places", size: int) -> None:
        self._places = places
        self._size = size
        self._moved = 0
        self._is_left = False

    def moved(self, size: int) -> None:
        """So many bytes more have come, or gone."""
        self._moved += size
        self._places.moved(size)

    def leave(self) -> None:
        """Nothing more will."""
        if not self._is_left:
            self._is_left = True
            self._places.leave(self._size)

    def completed(self) -> None:
        """Nothing more will, since all has."""
        self._places.line.completed(self._moved)
        self.leave()

    def stalled(self) -> None:
        """Nothing has, for so long that it is given up."""
        self._places.line.stalled()


class Places:
    """The places in one direction, up or down."""

    def __init__(self, clock: Clock, line: Line | None = None) -> None:
        self.line = line or Line()
        self.room: Callable[[], Awaitable[None]] = _always
        """Returns once there is room for more behind the line: what has come is held until somebody has dealt with it.
        """

        self._clock = clock
        self._waiting: deque[tuple[int, anyio.Event]] = deque()
        self._cleared: anyio.Event | None = None

    @property
    def waiting(self) -> int:
        """How many bodies wait for a place."""
        return len(self._waiting)

    async def enter(self, size: int) -> Place:
        """Waits for a place for a body of `size` bytes, and until there is room for it behind the line."""
        await self._stand_in_line(size)
        place = Place(self, size)
        try:
            await self.room()
        except BaseException:
            place.leave()
            raise
        return place

    async def _stand_in_line(self, size: int) -> None:
        if self._waiting or not self.line.has_room(size):
            me = (size, anyio.Event())
            self._waiting.append(me)
            try:
                await me[1].wait()
            except BaseException:
                if me in self._waiting:
                    self._waiting.remove(me)
                else:  # the place came with the cancellation
                    self.line.leave(size)
                self._let_in()
                raise
        else:
            self.line.join(size)

    async def clear(self) -> None:
        """Waits until nobody waits for a place: whoever would ask for another body had better not."""
        while self._waiting:
            if self._cleared is None:
                self._cleared = anyio.Event()
            await self._cleared.wait()

    def moved(self, size: int) -> None:
        """Bytes of somebody have come, or gone."""
        self.line.moved(size, self._clock.now(), has_waiting=bool(self._waiting))

    def leave(self, size: int) -> None:
        """Somebody's place is free."""
        self.line.leave(size)
        self._let_in()

    def bytes_per_s(self) -> float | None:
        """How many bytes a second come, or go, where the line is full."""
        return self.line.full_bytes_per_s(self._clock.now())

    def bodies_per_s(self) -> float | None:
        """How many bodies a second come, or go, where the line is full."""
        return self.line.bodies_per_s(self._clock.now())

    def _let_in(self) -> None:
        while self._waiting and self.line.has_room(self._waiting[0][0]):
            size, has_place = self._waiting.popleft()
            self.line.join(size)
            has_place.set()
        if not self._waiting and self._cleared is not None:
            self._cleared.set()
            self._cleared = None
