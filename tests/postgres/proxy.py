"""A network between a ledger and its server, or a process and the service, that does what networks do: it cuts, resets,
swallows, refuses, delays, and all of that at the worst moment, the COMMIT.
"""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum, auto
from typing import Final
from urllib.parse import parse_qs, urlencode, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.streams.stapled import MultiListener

COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""The message by which a ledger commits; it waits for all answers before, so nothing else travels with it."""

BEGIN: Final = b"BEGIN"
READ_ONLY: Final = b"READ ONLY"
"""Stands in the message by which a transaction begins that only sees several questions at once."""

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


class Halt:
    """A client that falls silent in the midst of a transaction: what it sent before has arrived, what comes then is on
    its way until `goes_on` is set. `then` is called at that moment.
    """

    def __init__(self, then: Callable[[], object], *, at_commit: bool) -> None:
        """Of one that writes: before its COMMIT, so that it holds all of its locks, or when half of another message has
        arrived.
        """
        self.at_commit = at_commit
        self.has_come = anyio.Event()
        self.goes_on = anyio.Event()
        self._then = then

    def is_at(self, data: bytes, *, in_transaction: bool) -> bool:
        """Whether this is the moment, when `data` is to be sent."""
        return in_transaction and (data == COMMIT) is self.at_commit and len(data) > 1 and not self.has_come.is_set()

    async def wait(self) -> None:
        """That is the moment."""
        self.has_come.set()
        self._then()
        await self.goes_on.wait()


class Proxy:
    """Between clients and the server at `url`, of PostgreSQL or of HTTP. What becomes of commits is drawn from `at_commit`;
    then all pass.
    """

    def __init__(self, url: str, tasks: TaskGroup, at_commit: Iterable[AtCommit] = ()) -> None:
        self.leads_to = url
        self._tasks = tasks
        self.at_commit = iter(at_commit)
        self.commits = 0
        """How many have passed, or have not."""

        self.connections = 0
        """How many were made until now."""

        self.is_swallowing = False
        """Nothing that is sent arrives, and nobody is told."""

        self.delay_s = 0.0
        """So much later arrives whatever travels."""

        self.halt: Halt | None = None
        """What becomes of whoever is the first to come to that moment."""

        self.goes_on = anyio.Event()
        """Nothing travels until this is set, also not what ends a connection; then all arrives in its order."""

        self.goes_on.set()
        self._port = 0
        self._listening = anyio.CancelScope()
        self._lines: set[_Line] = set()
        self._has_come_back = anyio.Event()

    @property
    def url(self) -> str:
        """That of the server, or of the database, as it is reached through here."""
        parts = urlsplit(self.leads_to)
        if parts.scheme == "http":
            return parts._replace(netloc=f"127.0.0.1:{self._port}").geturl()
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

    def fall_silent(self) -> None:
        """Nothing comes over the connections that there are any more, and their ends are told to nobody."""
        for line in self._lines:
            line.is_dead = True

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
        try:
            answers, server = await self._reached()
        except OSError:
            line.cut(reset=True)
            return
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._questions, line, server)
                tasks.start_soon(self._answers, line, answers)
        finally:
            server.transport.abort()

    async def _questions(self, line: "_Line", server: asyncio.StreamWriter) -> None:
        try:
            while data := await line.client.receive():
                await self._travels()
                line.is_in_transaction = line.is_in_transaction or (BEGIN in data and READ_ONLY not in data)
                if self.halt is not None and self.halt.is_at(data, in_transaction=line.is_in_transaction):
                    data = await self._halted(self.halt, server, data)
                line.is_in_transaction = line.is_in_transaction and data != COMMIT
                line.is_dead = line.is_dead or self.is_swallowing
                if not line.is_dead and (data != COMMIT or await self._passes(line, server)):
                    server.write(data)
        except _GONE:
            line.end()

    async def _travels(self) -> None:
        if self.delay_s:
            with anyio.move_on_after(self.delay_s):
                await anyio.sleep_forever()
        await self.goes_on.wait()

    async def _halted(self, halt: Halt, server: asyncio.StreamWriter, data: bytes) -> bytes:
        """What is still to be sent of `data` afterwards."""
        half = 0 if halt.at_commit else len(data) // 2
        server.write(data[:half])
        await halt.wait()
        return data[half:]

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
                await self._travels()
                if line.fate is AtCommit.UNANSWERED:
                    line.cut(reset=True)
                line.is_dead = line.is_dead or self.is_swallowing or line.fate is AtCommit.ANSWER_SWALLOWED
                if not line.is_dead:
                    await line.client.send(data)
        except _GONE:
            pass
        line.end()

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self.leads_to)
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

        self.is_in_transaction = False
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
