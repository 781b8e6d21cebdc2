"""A narrow line: a relay on loopback that lets so many bytes a second through in each direction.

All connections share it, a piece of one after a piece of another, as flows share a real line. Little is buffered on the
way, so that what the relay has not taken its sender still has.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
from anyio.abc import TaskGroup

PIECE_BYTES: Final = 16 * 1024
BUFFER_BYTES: Final = 32 * 1024
"""Of each socket of the relay's, in each direction."""


class Way:
    """One direction of a line."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0
        self.carried = 0
        """Bytes, of all connections."""

    async def let_through(self, size: int) -> None:
        """Waits for as long as `size` bytes need, after all that came before them."""
        self._free_s = max(self._free_s, anyio.current_time()) + size / self._bytes_per_s
        await anyio.sleep_until(self._free_s)
        self.carried += size


class Relay:
    """A line to `target` (`host:port`) and back; `address` is its beginning."""

    def __init__(self, target: str, up: Way, down: Way) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.up, self.down = up, down
        self.address = ""

    async def serve(self, listener: socket.socket) -> None:
        """Carries every connection that comes to `listener`, until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                near, _ = await asyncio.get_running_loop().sock_accept(listener)
                tasks.start_soon(self._carry, near)

    async def _carry(self, near: socket.socket) -> None:
        """Carries one connection until either side ends it."""
        with near, _socket() as far, suppress(OSError):
            near.setblocking(False)
            await asyncio.get_running_loop().sock_connect(far, self._target)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._pass_on, near, far, self.up, tasks)
                tasks.start_soon(self._pass_on, far, near, self.down, tasks)

    async def _pass_on(self, source: socket.socket, sink: socket.socket, way: Way, both: TaskGroup) -> None:
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while data := await loop.sock_recv(source, PIECE_BYTES):
                await way.let_through(len(data))
                await loop.sock_sendall(sink, data)
        both.cancel_scope.cancel()


def _socket() -> socket.socket:
    """A socket that keeps little; whoever is accepted from it is like it."""
    made = socket.socket()
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, buffer, BUFFER_BYTES)
    return made


@asynccontextmanager
async def narrow(target: str, bytes_per_s: float, *, beside: Relay | None = None) -> AsyncIterator[Relay]:
    """A line to `target`, for as long as the block runs.

    With `beside` it is the same line as that, in the other direction: what goes up here goes down there.
    """
    up, down = (beside.down, beside.up) if beside else (Way(bytes_per_s), Way(bytes_per_s))
    relay = Relay(target, up, down)
    with _socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        relay.address = f"127.0.0.1:{listener.getsockname()[1]}"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.serve, listener)
            yield relay
            tasks.cancel_scope.cancel()
