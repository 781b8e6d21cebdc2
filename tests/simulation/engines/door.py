"""The way from a process of a simulated world to a real server: it can be cut, it mends, and its connections go through
it.
"""

import asyncio
import random
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, Final

import anyio
import asyncpg

from orchestrator.ledger.postgres.connection import LineBounds, Settings
from tests.simulation.database import CommitWatch
from tests.simulation.engines.line import Line
from tests.simulation.loop import VirtualLoop, running_loop

LOST_S: Final = 30.0
"""After so long without a sign of life both systems give up a connection."""


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

    def __init__(self, line: Line) -> None:
        self._line = line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._line.open_on(transport)

    def data_received(self, data: bytes) -> None:
        self._line.came(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._line.server_left(error)
