"""A line from a process of a simulated world to a real server: on virtual time it is slow, it is cut, it outlives who
stands still, and it ends with who is killed.

What the driver takes for its socket is a `Line`. Its bytes travel for virtual seconds. Virtual time stands still while
the server has an answer to give, and goes on where it cannot: it waits for a lock that somebody else of the world holds.
"""

import asyncio
import errno
from collections import deque
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Final

from tests.postgres.proxy import COMMIT
from tests.simulation.engines.conversation import Conversation
from tests.simulation.loop import VirtualLoop

if TYPE_CHECKING:
    from tests.simulation.engines.door import Door

PIECE_BYTES: Final = 1 << 16
"""Of a long answer so much arrives at a time."""


class Line(asyncio.Transport):
    """One connection, as the driver has it."""

    def __init__(self, door: "Door", protocol: Any, loop: VirtualLoop) -> None:
        super().__init__()
        self._door, self._protocol, self._loop = door, protocol, loop
        self._context: Context = copy_context()
        self._socket: Any = None
        self.is_held_up = False
        """Whether the server cannot answer before somebody else lets go of a lock."""

        self._is_over = False
        self._is_committing = False
        self._still: asyncio.Future[None] | None = None
        self._said = Conversation()
        self._leaving: deque[bytes | None] = deque()
        """What is on its way to the server; None: the end."""

        self._coming: deque[bytes | OSError | None] = deque()
        self._piece = bytearray()
        self._rest = b""
        self._leaves_s = self._comes_s = 0.0
        loop.perishes(self)
        door.own.append(self)
        door.lines.open.append(self)

    @property
    def backend(self) -> int | None:
        """The server's process at its other end, once that is known."""
        return self._said.backend

    # --- as the driver sees it

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default if self._socket is None else self._socket.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._is_over

    def write(self, data: Any) -> None:
        if not self._is_over:
            self._leave(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        """What comes is little."""

    resume_reading = pause_reading

    def close(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._leave(None)
            self._loop.call_soon(self._protocol.connection_lost, None, context=self._context)

    abort = close

    # --- to the server

    def _leave(self, data: bytes | None) -> None:
        self._leaving.append(data)
        self._leaves_s = max(self._leaves_s, self._loop.time() + self._door.travel_s())
        self._door.lines.outside.run(self._loop.call_at, self._leaves_s, self._arrive)

    def _arrive(self) -> None:
        if self._door.is_cut or not self._leaving:
            return
        data = self._leaving.popleft()
        if data is None:
            self._end()
        elif self._socket is not None and (data != COMMIT or self._door.commits.committing()):
            self._said.ask(data)
            self._is_committing = data == COMMIT
            self._socket.write(data)
            self.mind()

    def mind(self) -> None:
        """Has virtual time stand still, or go on."""
        if self._said.is_awaited and not self.is_held_up:
            if self._still is None:
                still = self._loop.create_future()
                self._still = self._door.lines.outside.run(self._loop.stands_still_for, still)
        elif self._still is not None:
            self._still.set_result(None)
            self._still = None

    # --- from the server

    def open_on(self, transport: Any) -> None:
        """There is a server at the other end."""
        self._socket = transport
        if self._is_over:
            transport.abort()

    def came(self, data: bytes) -> None:
        """It has said something."""
        self._piece += data
        self.is_held_up = False
        has_ended = self._said.hear(data)
        if not self._said.is_awaited or len(self._piece) > PIECE_BYTES:
            self.mind()
            piece, self._piece = bytes(self._piece), bytearray()
            if self._is_committing:
                self._is_committing = False
                self._door.commits.committed()
            self._come(piece)
        if has_ended:
            self._door.lines.go_on()

    def server_left(self, error: Exception | None) -> None:
        """It has closed the connection: what comes there now is for nobody."""
        self._socket = None
        self._said.end()
        self._loop.outlives(self)
        self.mind()
        if self in self._door.lines.open:
            self._door.lines.open.remove(self)
        if self._piece:
            self._come(bytes(self._piece))
        self._come(OSError(errno.ECONNRESET, "reset") if error else None)
        self._door.lines.go_on()

    def _come(self, data: bytes | OSError | None) -> None:
        self._coming.append(data)
        self._comes_s = max(self._comes_s, self._loop.time() + self._door.travel_s())
        self._door.lines.outside.run(self._loop.call_at, self._comes_s, self._bring)

    def _bring(self) -> None:
        if not self._door.is_cut and self._coming:
            self._loop.call_soon(self._hear, self._coming.popleft(), context=self._context)

    def _hear(self, data: bytes | OSError | None) -> None:
        if self._is_over:
            return
        if isinstance(data, bytes):
            self._protocol.data_received(data)
            return
        self._is_over = True
        self._forget()
        self._protocol.connection_lost(data)

    # --- what befalls it

    def flush(self) -> None:
        """The line is mended: all that is on its way arrives."""
        for _ in range(len(self._leaving)):
            self._arrive()
        for _ in range(len(self._coming)):
            self._bring()

    def give_up(self) -> None:
        """Both systems have heard nothing for too long."""
        self._leaving.clear()
        self._end()
        self._loop.call_soon(self._hear, OSError(errno.ETIMEDOUT, "timed out"), context=self._context)

    def halve(self) -> None:
        """Half of what leaves last stays behind, or, as often, nothing."""
        last = self._leaving[-1] if self._leaving else None
        if last is not None and self._door.chance.random() < 1 / 2:
            half = len(last) // 2
            self._leaving[-1], self._rest = last[:half], last[half:]

    def go_on(self) -> None:
        """What has stayed behind follows."""
        rest, self._rest = self._rest, b""
        if rest and not self._is_over:
            self._leave(rest)

    def abandon(self) -> None:
        """Its process is killed: what has left arrives, or, as often, does not. Or it is the end of the world."""
        self._is_over = True
        if self._loop.crashed_at_s is None:
            if self._door.chance.random() < 1 / 2:
                self.flush()
            self._end()
            self._door.lines.outside.run(self._loop.perishes, self)  # until it is closed here, too
        elif self._socket is not None:
            self._socket._call_connection_lost(None)

    def _end(self) -> None:
        """The server hears that nobody is there any more."""
        self._forget()
        if self._socket is not None:
            self._door.lines.outside.run(self._socket.abort)

    def _forget(self) -> None:
        if self in self._door.own:
            self._door.own.remove(self)
