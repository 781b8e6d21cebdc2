"""Slots for large bodies that share the network, first come, first served. `core` decides how many there are."""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from orchestrator.clock import Clock
from orchestrator.core.limits.transfer_slots import SharedLine

LARGE_BYTES: Final = 64 * 1024
"""A body up to this size needs no slot: it has arrived before a slot would be of use."""


async def _always() -> None:
    """There is room."""


class TransferSlot:
    """One body of (about) `size` bytes in transfer. `leave` must be called; more than once is harmless."""

    __slots__ = ("_is_left", "_moved", "_size", "_slots")

    def __init__(self, slots: "TransferSlots", size: int) -> None:
        self._slots = slots
        self._size = size
        self._moved = 0
        self._is_left = False

    def moved(self, size: int) -> None:
        """`size` more bytes were transferred."""
        self._moved += size
        self._slots.moved(size)

    def leave(self) -> None:
        """Frees the slot."""
        if not self._is_left:
            self._is_left = True
            self._slots.leave(self._size)

    def completed(self) -> None:
        """The whole body was transferred. Frees the slot."""
        self._slots.line.completed(self._moved)
        self.leave()

    def stalled(self) -> None:
        """The transfer was given up because no byte moved for too long."""
        self._slots.line.stalled()


class TransferSlots:
    """The slots in one direction, up or down."""

    def __init__(self, clock: Clock, line: SharedLine | None = None) -> None:
        self.line = line or SharedLine()
        self.room: Callable[[], Awaitable[None]] = _always
        """Returns once memory has room for another body: what has arrived is kept until it was processed."""

        self._clock = clock
        self._waiting: deque[tuple[int, anyio.Event]] = deque()
        self._cleared: anyio.Event | None = None

    @property
    def waiting(self) -> int:
        """How many bodies wait for a slot."""
        return len(self._waiting)

    async def enter(self, size: int) -> TransferSlot:
        """Waits for a slot for a body of `size` bytes, and until memory has `room` for it."""
        await self._stand_in_line(size)
        slot = TransferSlot(self, size)
        try:
            await self.room()
        except BaseException:
            slot.leave()
            raise
        return slot

    async def _stand_in_line(self, size: int) -> None:
        if self._waiting or not self.line.has_room(size):
            me = (size, anyio.Event())
            self._waiting.append(me)
            try:
                await me[1].wait()
            except BaseException:
                if me in self._waiting:
                    self._waiting.remove(me)
                else:  # the slot came with the cancellation
                    self.line.leave(size)
                self._let_in()
                raise
        else:
            self.line.join(size)

    async def clear(self) -> None:
        """Waits until nobody waits for a slot, so that no further body is asked for before."""
        while self._waiting:
            if self._cleared is None:
                self._cleared = anyio.Event()
            await self._cleared.wait()

    def moved(self, size: int) -> None:
        """`size` bytes of any body were transferred."""
        self.line.moved(size, self._clock.now(), has_waiting=bool(self._waiting))

    def leave(self, size: int) -> None:
        """A body of `size` bytes frees its slot."""
        self.line.leave(size)
        self._let_in()

    def bytes_per_s(self) -> float | None:
        """Bytes per second while all slots are taken; None where that is not known."""
        return self.line.full_bytes_per_s(self._clock.now())

    def bodies_per_s(self) -> float | None:
        """Bodies per second while all slots are taken; None where that is not known."""
        return self.line.bodies_per_s(self._clock.now())

    def _let_in(self) -> None:
        while self._waiting and self.line.has_room(self._waiting[0][0]):
            size, has_place = self._waiting.popleft()
            self.line.join(size)
            has_place.set()
        if not self._waiting and self._cleared is not None:
            self._cleared.set()
            self._cleared = None
