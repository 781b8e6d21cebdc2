"""The strangers, in a process of their own: they send until their standard input ends, and then say what came of it.

python -m tests.hostile.strangers PLAN
"""

import asyncio
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Final, cast

import anyio
import anyio.abc
import msgspec
import uvloop

from orchestrator.client.http.open_files import open_files_allowed
from tests.hostile.requests import ATTACKS, CLOSED, Attack, Targets, request

SLOW_S: Final = 2.0
"""A slow sender sends a byte this often."""

ANSWER_S_MAX: Final = 15.0
CHUNK: Final = b"100000\r\n" + b'"evil' * 209_715 + b"!\r\n"
"""One chunk of a mebibyte."""

GIGABYTE: Final = 1_000_000_000
_KERNEL_BUFFERS: Final = (Path("/proc/sys/net/ipv4/tcp_rmem"), Path("/proc/sys/net/ipv4/tcp_wmem"))
"""The last of their three numbers is the most bytes that Linux holds for a connection, coming and going."""

KERNEL_BYTES_ELSEWHERE: Final = 16_000_000
KNOWN_MAX: Final = 500
LOOK_S: Final = 0.2
SOON_S: Final = 0.01
READY: Final = b"ready\n"
"""What they print first, and beside it only what came of it in the end."""

OPENERS: Final = 4
RESERVED: Final = 500
"""Open files that are not slow connections."""

_TROUBLE: Final = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)


def kernel_bytes() -> int:
    """The most bytes that the system itself holds of a body that the listener does not read (yet)."""
    if not all(path.exists() for path in _KERNEL_BUFFERS):
        return KERNEL_BYTES_ELSEWHERE
    return sum(int(path.read_text().split()[-1]) for path in _KERNEL_BUFFERS)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Whom to attack, and how hard."""

    port: int
    ledger: str
    slow: int
    """Connections that are held open by slow senders."""
    floods: int
    """Senders of each kind of request, each with one request after the other."""
    seconds: float | None = None
    """For how long, from when the first job has ended; None: until standard input ends."""
    seed: int = 1


class Tally(msgspec.Struct, kw_only=True):
    """What came of it."""

    answers: dict[str, dict[int, int]]
    """How often each kind of request was answered with which status; 0: the connection was closed."""
    unexpected: list[str]
    slow_opened: int = 0
    slow_most: int = 0
    """The most slow connections that were open, as seen from here."""
    gigabytes: int = 0
    """Bodies of a gigabyte in chunks, and the most bytes that one of them got rid of:"""
    gigabyte_bytes_most: int = 0
    seconds: float = 0.0

    @property
    def requests(self) -> int:
        """All requests but the slow ones."""
        return sum(sum(found.values()) for found in self.answers.values())


class Strangers:
    """Everybody who sends something to the listener at `plan.port`."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._targets: Targets
        """Once there is a key."""

        self._slow = 0
        self.tally = Tally(answers={attack.name: {} for attack in ATTACKS}, unexpected=[])

    async def attack(self) -> None:
        """Sends until cancelled, or for as long as is planned."""
        await self._learn()
        started = time.perf_counter()
        try:
            with anyio.move_on_after(self._plan.seconds):
                await self._send_all()
        finally:
            self.tally.seconds = time.perf_counter() - started

    async def _send_all(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._forever, self._learn_more)
            for attack in ATTACKS:
                for _ in range(self._plan.floods):
                    group.start_soon(self._forever, partial(self._send, attack))
            for with_token in (True, False):
                group.start_soon(self._forever, partial(self._gigabyte, with_token=with_token))
            for _ in range(OPENERS):
                group.start_soon(self._forever, self._open_slow)

    async def _forever(self, send: Callable[[], Awaitable[None]]) -> None:
        while True:
            with suppress(*_TROUBLE):
                await send()
            await anyio.sleep(0.001)

    # --- what they know

    async def _learn(self) -> None:
        """Waits until the program has a key, and looks up jobs that have ended until there are some."""
        key = anyio.Path(f"{self._plan.ledger}.key")
        while not await key.exists():  # noqa: ASYNC110  nobody else would tell
            await anyio.sleep(SOON_S)
        self._targets = Targets(key=await key.read_bytes(), ended=(), chance=random.Random(self._plan.seed))
        while not self._targets.ended:
            await self._learn_more()

    async def _learn_more(self) -> None:
        with closing(sqlite3.connect(f"file:{self._plan.ledger}?mode=ro", uri=True)) as ledger:
            query = "SELECT submission_id FROM jobs WHERE state = 'succeeded' ORDER BY id DESC LIMIT ?"
            ended = [row[0] for row in ledger.execute(query, (KNOWN_MAX,))]
        self._targets = msgspec.structs.replace(self._targets, ended=ended)
        await anyio.sleep(LOOK_S)

    # --- what they send

    async def _connect(self) -> anyio.abc.SocketStream:
        return await anyio.connect_tcp("127.0.0.1", self._plan.port)

    async def _send(self, attack: Attack) -> None:
        data = attack.make(self._targets)
        async with await self._connect() as stream:
            try:
                found = await _exchange(stream, data)
            except TimeoutError:
                self.tally.unexpected.append(f"{attack.name}: neither answered nor closed within {ANSWER_S_MAX:g} s")
                return
        counts = Counter(self.tally.answers[attack.name])
        counts[found] += 1
        self.tally.answers[attack.name] = dict(counts)
        if found not in attack.answers:
            self.tally.unexpected.append(f"{attack.name}: {found}")

    async def _gigabyte(self, *, with_token: bool) -> None:
        """A body in chunks, until the listener has had enough."""
        path = self._targets.token() if with_token else "1." + 32 * "0"
        head = request("POST", f"/hooks/{path}", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        sent = 0
        try:
            async with await self._connect() as stream:
                await stream.send(head)
                while sent < GIGABYTE:
                    await stream.send(CHUNK)
                    sent += len(CHUNK)
        finally:
            self.tally.gigabytes += 1
            self.tally.gigabyte_bytes_most = max(self.tally.gigabyte_bytes_most, sent)

    async def _open_slow(self) -> None:
        """Opens slow connections, and others for those that are closed."""
        while self._slow < self._plan.slow:
            self._slow += 1
            try:
                await asyncio.get_running_loop().create_connection(
                    lambda: _Slow(self, silent=self._slow % 2 == 0), "127.0.0.1", self._plan.port
                )
            except OSError:
                self._slow -= 1
                raise
            self.tally.slow_opened += 1
            self.tally.slow_most = max(self.tally.slow_most, self._slow)

    def closed_slow(self) -> None:
        """A slow connection has ended."""
        self._slow -= 1


class _Slow(asyncio.Protocol):
    """A connection that sends a byte of a head from time to time, or nothing at all."""

    def __init__(self, strangers: Strangers, *, silent: bool) -> None:
        self._strangers = strangers
        self._bytes = iter(b"" if silent else request("POST", f"/hooks/{'1' * 40}", b"x"))
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._send(cast(asyncio.Transport, transport))

    def _send(self, transport: asyncio.Transport) -> None:
        for byte in self._bytes:
            transport.write(bytes([byte]))
            self._timer = asyncio.get_running_loop().call_later(SLOW_S, self._send, transport)
            return

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._strangers.closed_slow()


async def _exchange(stream: anyio.abc.SocketStream, data: bytes) -> int:
    """The status of the answer to `data`, or CLOSED."""
    with anyio.fail_after(ANSWER_S_MAX):
        with suppress(*_TROUBLE):  # an answer may come before all is sent
            await stream.send(data)
        received = b""
        try:
            while b"\r\n" not in received:
                received += await stream.receive()
        except _TROUBLE:
            return CLOSED
    status = received.split(b" ", 2)[1]
    return int(status) if status != b"100" else await _exchange(stream, b"")


async def main(plan: Plan) -> Tally:
    """Attacks until standard input ends."""
    open_files_allowed(plan.slow + RESERVED)
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    ended, strangers = anyio.Event(), Strangers(plan)
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    async with anyio.create_task_group() as group:
        group.start_soon(strangers.attack)
        await ended.wait()
        group.cancel_scope.cancel()
    return strangers.tally


if __name__ == "__main__":
    tally = uvloop.run(main(msgspec.json.decode(sys.argv[1], type=Plan)))
    sys.stdout.buffer.write(msgspec.json.encode(tally))
