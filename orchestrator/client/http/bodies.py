"""Bodies on their way up and down: large ones take turns, and whatever moves is counted as no silence."""

import asyncio
import socket
from collections.abc import AsyncIterable, Callable
from contextlib import suppress
from typing import Final

import aiohttp.payload
from aiohttp.abc import AbstractStreamWriter

from orchestrator.client.http.idle_timeout import IdleTimeout
from orchestrator.client.http.transfer_slots import LARGE_BYTES, TransferSlot, TransferSlots
from orchestrator.errors import CutShort, NotSent, Unanswered

PIECE_BYTES: Final = 64 * 1024
"""A large body leaves in pieces of this size."""

Leaving = Callable[[], None]
"""Called just before the last bytes of a body are handed to its connection: before, nobody can act on the request. It
marks that the request may have left."""

MayLeave = Callable[[], bool]
"""Asked just before bytes of a request are handed to their connection whether they may be: in the same step of the
event loop, so that nothing comes between. A process whose place another one may have taken sends nothing more."""

NOT_OURS: Final = "another process may send in this one's place by now"


def refuse_to_leave(may_leave: MayLeave | None) -> None:
    """Raises `NotSent` where nothing may leave any more."""
    if may_leave is not None and not may_leave():
        raise NotSent(NOT_OURS)


def leave_marked(leaving: Leaving | None, may_leave: MayLeave | None) -> None:
    """The next bytes of a request leave; `leaving` is to be called if they are its last. Raises `NotSent` where nothing
    may leave any more.

    It is asked again after that call: a process that is stopped in between may go on once another one has read the
    marks, and takes what has none for never sent.
    """
    refuse_to_leave(may_leave)
    if leaving is not None:
        leaving()
        refuse_to_leave(may_leave)


class Upload(aiohttp.payload.Payload):
    """A body on its way up: in pieces, so that it is known how much of it has been taken, whatever the transport.

    (One write of it all would land in a buffer of the transport's as a whole, and with TLS count as written at once.)
    """

    def __init__(
        self, body: bytes, idle_timeout: IdleTimeout, leaving: Leaving | None, may_leave: MayLeave | None = None
    ) -> None:
        super().__init__(body)
        self._body = body
        self._idle_timeout = idle_timeout
        self._leaving = leaving
        self._may_leave = may_leave
        self._handed = 0
        self._refusal: NotSent | None = None
        self._transport: asyncio.WriteTransport | None = None
        self.slot: TransferSlot | None = None

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self._body)

    @property
    def autoclose(self) -> bool:
        """There is nothing to close."""
        return True

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The body as a text."""
        return self._body.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Hands it to the transport, as fast as that takes it."""
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, _content_length: int | None) -> None:
        """The same: the length is what we said ourselves, its size."""
        self._transport = writer.transport
        try:
            await self._write(writer)
        except NotSent as error:
            self._refusal = CutShort(error.message) if self._handed else error
            raise

    async def _write(self, writer: AbstractStreamWriter) -> None:
        if self.slot is None:
            leave_marked(self._leaving, self._may_leave)
            self._idle_timeout.moved += self.size
            self._handed = self.size
            await writer.write(self._body)
            return
        _keep_little_unsent(self._transport)
        view = memoryview(self._body)
        for start in range(0, self.size, PIECE_BYTES):
            piece = view[start : start + PIECE_BYTES]
            is_last = self._handed + len(piece) == self.size
            leave_marked(self._leaving if is_last else None, self._may_leave)
            self._handed += len(piece)
            await writer.write(piece)
            await writer.drain()
            self._idle_timeout.moved += len(piece)
            self.slot.moved(len(piece))
        self.slot.completed()

    def check(self) -> None:
        """Raises what kept it from leaving, if something of ours did: what aiohttp raises instead does not say."""
        if self._refusal is not None:
            raise self._refusal

    def cut(self) -> bool:
        """The request has ended: nothing of the body leaves any more. Returns whether some of it never left.

        What the transport still holds would leave even after it was closed, so it is aborted.
        """
        transport = self._transport
        if transport is None:
            return True  # there was no connection, or no word on it: the head leaves with the body's beginning
        is_cut = self._handed < self.size or transport.get_write_buffer_size() > 0
        if is_cut:
            transport.abort()
            if self.slot is not None and self._idle_timeout.is_over:
                self.slot.stalled()
        return is_cut


class Download:
    """An answer on its way down: when it turns out to be large, the rest of it waits for one of `slots` on the line.

    `expected` bytes are reserved for it in memory. What is not to be kept is only read.
    """

    def __init__(
        self, idle_timeout: IdleTimeout, slots: TransferSlots | None = None, expected: int = 0, *, is_kept: bool = True
    ) -> None:
        self._idle_timeout = idle_timeout
        self._is_kept = is_kept
        self._slots = slots
        self._expected = expected
        self._slot: TransferSlot | None = None

    async def read(self, pieces: AsyncIterable[bytes], bytes_max: int) -> bytes:
        """All of `pieces`. Raises `Unanswered` where they are longer than `bytes_max`."""
        try:
            body = await self._joined(pieces, bytes_max)
        except BaseException:
            if self._slot is not None:
                if self._idle_timeout.is_over:
                    self._slot.stalled()
                self._slot.leave()
            raise
        if self._slot is not None:
            self._slot.completed()
        return body

    async def _joined(self, pieces: AsyncIterable[bytes], bytes_max: int) -> bytes:
        chunks: list[bytes] = []
        try:
            await self._gather(chunks, pieces, bytes_max)
        except BaseException:
            chunks.clear()  # whoever keeps the error keeps this frame
            raise
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _gather(self, chunks: list[bytes], pieces: AsyncIterable[bytes], bytes_max: int) -> None:
        size = 0
        async for chunk in pieces:
            self._idle_timeout.moved += len(chunk)
            if not self._is_kept:
                continue
            size += len(chunk)
            if size > bytes_max:
                raise Unanswered(f"the answer is longer than {bytes_max} bytes")
            chunks.append(chunk)
            if self._slot is not None:
                self._slot.moved(len(chunk))
            elif size > LARGE_BYTES and self._slots is not None:
                # Meanwhile the sender is held back, and not waited for.
                with self._idle_timeout.paused():
                    self._slot = await self._slots.enter(self._expected)


def _keep_little_unsent(transport: asyncio.WriteTransport | None) -> None:
    """Else the system takes megabytes of a body at once, and they count as sent for as long as the line needs."""
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is not None:
        with suppress(OSError):  # it has just been closed, or is none of TCP
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, PIECE_BYTES)
