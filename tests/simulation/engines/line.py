"""A line from a process of a simulated world to a real server: on virtual time it is slow, it is cut, it outlives who
stands still, and it ends with who is killed.

What the driver takes for its socket is a `Line`. Its bytes travel for virtual seconds. Virtual time stands still while
the server has an answer to give, and goes on where it cannot: it waits for a lock that somebody else of the world holds.
"""

import asyncio
import errno
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any, Final

import anyio
import asyncpg

from orchestrator.ledger.postgres.connection import LineBounds, Settings
from tests.postgres.proxy import COMMIT
from tests.simulation.database import CommitWatch
from tests.simulation.loop import VirtualLoop, running_loop

LOST_S: Final = 30.0
"""After so long without a sign of life both systems give up a connection."""

PIECE_BYTES: Final = 1 << 16
"""Of a long answer so much arrives at a time."""

_QUERY, _DESCRIBED = b"QH"
_ASK: Final = frozenset(b"QScfH")
"""Messages of a client after which the server has something to say; so is the first one, which has no letter."""

_READY, _COPY, _KEY, _IDLE = b"ZGKI"
"""Messages of the server: it is ready, it wants the rows of a COPY, the number of its process; and a state of the first."""

_DESCRIPTION: Final = frozenset(b"TnE")
"""Those that end the description of a statement."""


class Messages:
    """The messages in what comes on one way of a line. The first of a client has no letter."""

    def __init__(self, *, is_client: bool) -> None:
        self._buffer = bytearray()
        self._has_letter = not is_client

    def of(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Each that is whole by now: its letter, and the whole of it."""
        self._buffer += data
        while True:
            head = 1 if self._has_letter else 0
            if len(self._buffer) < head + 4:
                return
            end = head + int.from_bytes(self._buffer[head : head + 4], "big")
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._has_letter = True
            yield (message[0] if head else _QUERY), message


class Lines:
    """Those of all processes of a world. `blocked` tells which processes of the server wait for a lock."""

    def __init__(self, blocked: Callable[[], set[int]]) -> None:
        self._blocked = blocked
        self.open: list[Line] = []
        self.outside = copy_context()
        """In which nobody stands still, or is killed."""

        running_loop().look = self.look

    def look(self) -> None:
        """The server has said nothing for a moment: whoever waits for a lock there is waited for no more."""
        blocked = self._blocked()
        for line in self.open:
            if line.backend in blocked:
                line.is_held_up = True
                line.mind()

    def go_on(self) -> None:
        """A transaction has ended: whoever waited for a lock may have it by now."""
        for line in self.open:
            if line.is_held_up:
                line.is_held_up = False
                line.mind()


class Door:
    """The way of one process to the server at `url`: of all of its connections, whose names end with `mark`.

    A message and its answer travel for up to `call_s` together. `commits` is told of each commit.
    """

    def __init__(
        self, url: str, lines: Lines, *, mark: str, call_s: float, chance: random.Random, commits: CommitWatch
    ) -> None:
        self._url = url
        self._mark = mark
        self._call_s = call_s
        self.chance = chance
        self.commits = commits
        self.lines = lines
        self.own: list[Line] = []
        self.cuts = 0
        self.is_cut = False
        self._mended = anyio.Event()

    async def connect(self, settings: Settings, bounds: LineBounds) -> Any:
        """A connection of the driver's."""
        named = {"application_name": f"orchestrator{self._mark}", **settings}
        return await asyncpg.connect(
            self._url,
            server_settings=named,
            timeout=bounds.connected_s,
            command_timeout=bounds.answered_s,
            loop=_DoorLoop(self, running_loop()),
        )

    def travel_s(self) -> float:
        """For how long a message is on its way this time."""
        return self.chance.uniform(0, self._call_s / 2)

    async def reached(self) -> None:
        """Returns once the server has heard of us, which may be never."""
        await anyio.sleep(self.travel_s())
        while self.is_cut:
            await self._mended.wait()

    def cut(self) -> None:
        """Nothing arrives any more, and nobody is told."""
        self.is_cut, self.cuts, self._mended = True, self.cuts + 1, anyio.Event()
        self.lines.outside.run(running_loop().call_later, LOST_S, self._give_up, self.cuts)

    def mend(self) -> None:
        """What is still on its way arrives."""
        self.is_cut = False
        self._mended.set()
        for line in tuple(self.own):
            line.flush()

    def _give_up(self, cut: int) -> None:
        if self.is_cut and self.cuts == cut:
            for line in tuple(self.own):
                line.give_up()

    def halve(self) -> None:
        """The process stands still from now on: of some messages half has left."""
        for line in self.own:
            line.halve()

    def go_on(self) -> None:
        """It goes on, with the other half."""
        for line in self.own:
            line.go_on()


class _DoorLoop:
    """A loop as the driver sees it: connections that it makes go through the door."""

    def __init__(self, door: Door, loop: VirtualLoop) -> None:
        self._door = door
        self._loop = loop

    async def create_unix_connection(self, factory: Callable[[], Any], *where: Any) -> tuple[Any, Any]:
        return await self._made(factory, self._loop.create_unix_connection, where)

    async def create_connection(self, factory: Callable[[], Any], *where: Any) -> tuple[Any, Any]:
        return await self._made(factory, self._loop.create_connection, where)

    async def _made(self, factory: Callable[[], Any], connect: Callable[..., Any], where: Any) -> tuple[Any, Any]:
        await self._door.reached()
        protocol = factory()
        line = Line(self._door, protocol, self._loop)
        outside = self._door.lines.outside
        opening = outside.run(self._loop.create_task, connect(lambda: _Socket(line), *where))
        await outside.run(self._loop.stands_still_for, opening)
        protocol.connection_made(line)
        return line, protocol

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


class _Socket(asyncio.Protocol):
    """The real end of a line."""

    def __init__(self, line: "Line") -> None:
        self._line = line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._line.open_on(transport)

    def data_received(self, data: bytes) -> None:
        self._line.came(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._line.server_left(error)


class Line(asyncio.Transport):
    """One connection, as the driver has it. `backend` is the server's process at its other end."""

    def __init__(self, door: Door, protocol: Any, loop: VirtualLoop) -> None:
        super().__init__()
        self._door, self._protocol, self._loop = door, protocol, loop
        self._context: Context = copy_context()
        self._socket: Any = None
        self.backend: int | None = None
        self.is_held_up = False
        """Whether the server cannot answer before somebody else lets go of a lock."""

        self._is_over = False
        self._awaited = self._described = 0
        """How many answers are still to come, and how many of these describe a statement."""

        self._is_committing = False
        self._still: asyncio.Future[None] | None = None
        self._asked, self._told = Messages(is_client=True), Messages(is_client=False)
        self._leaving: deque[bytes | None] = deque()
        """What is on its way to the server; None: the end."""

        self._coming: deque[bytes | OSError | None] = deque()
        self._piece = bytearray()
        self._rest = b""
        self._leaves_s = self._comes_s = 0.0
        loop.perishes(self)
        door.own.append(self)
        door.lines.open.append(self)

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
            letters = [letter for letter, _ in self._asked.of(data)]
            self._awaited += sum(letter in _ASK for letter in letters)
            self._described += letters.count(_DESCRIBED)
            self._is_committing = data == COMMIT
            self._socket.write(data)
            self.mind()

    def mind(self) -> None:
        """Has virtual time stand still, or go on."""
        if self._awaited > 0 and not self.is_held_up:
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
        self.is_held_up = has_ended = False
        for letter, message in self._told.of(data):
            if letter == _KEY:
                self.backend = int.from_bytes(message[5:9], "big")
            elif letter in (_READY, _COPY) or (self._described and letter in _DESCRIPTION):
                self._awaited -= 1
                self._described -= letter in _DESCRIPTION
                has_ended = has_ended or (letter == _READY and message[5] == _IDLE)
        if self._awaited <= 0 or len(self._piece) > PIECE_BYTES:
            self._awaited = max(self._awaited, 0)
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
        self._awaited, self._socket = 0, None
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
