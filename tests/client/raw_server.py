"""Servers that misbehave exactly as told, on real loopback sockets."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import SocketAttribute, SocketStream

Handler = Callable[[SocketStream], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """`handler` has each connection to itself, which is closed when it returns; yields `127.0.0.1:port`."""

    async def handle(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await handler(stream)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    trouble: Exception | None = None
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        try:
            yield f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        except Exception as error:  # noqa: BLE001  the task group would wrap it in a group
            trouble = error
        tasks.cancel_scope.cancel()
    if trouble is not None:
        raise trouble


def closed_port() -> str:
    """`127.0.0.1:port` where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


async def read_request(stream: SocketStream) -> bytes:
    """One request, head and body."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, body = data.split(b"\r\n\r\n", 1)
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += await stream.receive()
    return head + b"\r\n\r\n" + body


def response(body: bytes = b"{}", *, status: str = "200 OK", headers: str = "") -> bytes:
    """A whole answer; `headers` are lines that each end with CRLF."""
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def answering(*pieces: bytes) -> Handler:
    """Reads a request, sends `pieces`, and closes."""

    async def handler(stream: SocketStream) -> None:
        await read_request(stream)
        for piece in pieces:
            await stream.send(piece)

    return handler
