"""A network between a ledger and its server that does what networks do: it cuts, resets, swallows, refuses, delays, and
all of that at the worst moment, the COMMIT.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum, auto
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener

COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""The message by which a ledger commits; it waits for all answers before, so nothing else travels with it."""

CHUNK: Final = 65_536
_GONE: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)


class AtCommit(StrEnum):
    """What becomes of a COMMIT on its way."""

    PASSED = auto()
    LOST = auto()
    """It never arrives: both ends are cut off."""

    UNANSWERED = auto()
    """It arrives and is carried out; then both ends are cut off."""

    LATE = auto()
    """Its sender is cut off at once; it arrives when the sender comes back."""

    SWALLOWED = auto()
    """It never arrives, and nobody is told: nothing comes over this connection any more."""

    ANSWER_SWALLOWED = auto()
    """It is carried out, and nobody is told."""


class Proxy:
    """Between clients and the server at `url`. What becomes of commits is drawn from `at_commit`; then all pass."""

    def __init__(self, url: str, tasks: TaskGroup, at_commit: Iterable[AtCommit] = ()) -> None:
        self._url = url
        self._tasks = tasks
        self.at_commit = iter(at_commit)
        self.commits = 0
        """How many have passed, or have not."""

        self.connections = 0
        """How many were made until now."""

        self.is_swallowing = False
        """Nothing that is sent arrives, and nobody is told."""

        self.goes_on = anyio.Event()
        """Nothing travels until this is set, also not what ends a connection; then all arrives in its order."""

        self.goes_on.set()
        self._port = 0
        self._listening = anyio.CancelScope()
        self._lines: set[_Line] = set()
        self._has_come_back = anyio.Event()

    @property
    def url(self) -> str:
        """That of the database as it is reached through here."""
        parts = urlsplit(self._url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items() if name not in ("host", "port")}
        user = (parts.username or "") + (f":{parts.password}" if parts.password else "")
        at = f"{user}@127.0.0.1:{self._port}"
        return parts._replace(netloc=at, query=urlencode(query | {"sslmode": "disable"})).geturl()

    async def listen(self) -> None:
        """Takes connections, at the same place each time."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)
        self._port = listener.extra(SocketAttribute.local_port)
        self._listening = anyio.CancelScope()
        self._tasks.start_soon(self._listen, listener, self._listening)

    async def _listen(self, listener: MultiListener[SocketStream], scope: anyio.CancelScope) -> None:
        async with listener:
            with scope:
                await listener.serve(self._carry, self._tasks)

    def refuse(self) -> None:
        """Takes no more, and ends those that there are."""
        self._listening.cancel()
        self.cut()

    def cut(self, *, reset: bool = False) -> None:
        """Ends all connections, in order or with a reset."""
        for line in tuple(self._lines):
            line.cut(reset=reset)

    async def _carry(self, client: SocketStream) -> None:
        self.connections += 1
        self._has_come_back.set()
        self._has_come_back = anyio.Event()
        line = _Line(client)
        self._lines.add(line)
        try:
            with line.scope:
                if not self.is_swallowing:
                    await self._between(line)
                await anyio.sleep_forever()
        finally:
            self._lines.discard(line)
            await anyio.aclose_forcefully(client)

    async def _between(self, line: "_Line") -> None:
        answers, server = await self._reached()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._questions, line, server)
                tasks.start_soon(self._answers, line, answers)
        finally:
            server.transport.abort()

    async def _questions(self, line: "_Line", server: asyncio.StreamWriter) -> None:
        try:
            while data := await line.client.receive():
                await self.goes_on.wait()
                line.is_dead = line.is_dead or self.is_swallowing
                if not line.is_dead and (data != COMMIT or await self._passes(line, server)):
                    server.write(data)
        except _GONE:
            line.end()

    async def _passes(self, line: "_Line", server: asyncio.StreamWriter) -> bool:
        """Whether a COMMIT arrives now."""
        self.commits += 1
        line.fate = next(self.at_commit, AtCommit.PASSED)
        match line.fate:
            case AtCommit.LOST:
                line.cut(reset=True)
            case AtCommit.SWALLOWED:
                line.is_dead = True
            case AtCommit.LATE:
                has_come_back = self._has_come_back
                await anyio.aclose_forcefully(line.client)
                await has_come_back.wait()
                server.write(COMMIT)
            case AtCommit.PASSED | AtCommit.UNANSWERED | AtCommit.ANSWER_SWALLOWED:
                return True
        return False

    async def _answers(self, line: "_Line", server: asyncio.StreamReader) -> None:
        try:
            while data := await server.read(CHUNK):
                await self.goes_on.wait()
                if line.fate is AtCommit.UNANSWERED:
                    line.cut(reset=True)
                line.is_dead = line.is_dead or self.is_swallowing or line.fate is AtCommit.ANSWER_SWALLOWED
                if not line.is_dead:
                    await line.client.send(data)
        except _GONE:
            pass
        line.end()

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._url)
        host, port = parse_qs(parts.query).get("host", [parts.hostname or ""])[0], parts.port or 5432
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)


class _Line:
    """One connection, from end to end."""

    def __init__(self, client: SocketStream) -> None:
        self.client = client
        self.scope = anyio.CancelScope()
        self.fate: AtCommit | None = None
        """Of the last commit on it."""

        self.is_dead = False
        """Nothing comes over it any more, and nobody is told."""

    def end(self) -> None:
        """One end has gone; the other one is told, unless nothing comes over any more."""
        if not self.is_dead:
            self.scope.cancel()

    def cut(self, *, reset: bool = False) -> None:
        """Both ends are told."""
        if reset:
            its = self.client.extra(SocketAttribute.raw_socket)
            its.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.scope.cancel()


@asynccontextmanager
async def proxied(url: str, at_commit: Iterable[AtCommit] = ()) -> AsyncIterator[Proxy]:
    """A proxy before the server at `url`."""
    async with anyio.create_task_group() as tasks:
        proxy = Proxy(url, tasks, at_commit)
        await proxy.listen()
        yield proxy
        proxy.refuse()
        tasks.cancel_scope.cancel()
