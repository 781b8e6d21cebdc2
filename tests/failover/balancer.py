"""One address before several listeners, as a load balancer is: each request goes to the next one that answers."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import cycle
from typing import Final

ANSWERED_S: Final = 1.0
"""Who has not answered by then is passed over, and never told."""

BAD_GATEWAY: Final = b"HTTP/1.1 502 -\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Balancer:
    """Before listeners at these `ports`, for requests that end their connection."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._number = len(ports)
        self._ports = cycle(ports)

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carries one request, and its answer."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        request = head + await reader.readexactly(int(length.partition(b":")[2]))
        answer = b""
        for _ in range(self._number):
            answer = answer or await _answer(next(self._ports), request)
        writer.write(answer or BAD_GATEWAY)
        writer.close()


async def _answer(port: int, request: bytes) -> bytes:
    """What the listener there answers; nothing where nobody does in time."""
    try:
        async with asyncio.timeout(ANSWERED_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(request)
                return await reader.read()
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError):
        return b""


@asynccontextmanager
async def balancing(ports: Sequence[int]) -> AsyncIterator[str]:
    """The URL of one."""
    async with await asyncio.start_server(Balancer(ports).carry, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def free_port() -> int:
    """One at which nobody listens, for whoever listens there again and again."""
    with socket.create_server(("127.0.0.1", 0)) as there:
        return int(there.getsockname()[1])
