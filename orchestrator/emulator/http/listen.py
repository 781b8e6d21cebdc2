"""Serves the emulator on a socket, with uvicorn; a connection that is to be cut really is.

ASGI has no word for hanging up: whatever an application raises, uvicorn answers 500. So the protocol below offers
"close this connection" to the application as an extension of the request's scope.
"""

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.errors import UsageError

HANG_UP = "orchestrator.hang_up"
"""The extension of the scope that holds two functions, `close` and `reset`."""

SHUTDOWN_S = 1
"""How long requests under way may take to end once the server is to stop."""

BACKLOG = 2048

NO_LINGER = struct.pack("ii", 1, 0)


def bind(host: str = "127.0.0.1", port: int = 0) -> socket.socket:
    """A listening socket; port 0 is any free one. Raises UsageError if the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise UsageError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


async def listen(
    app: ASGIApp, sock: socket.socket, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Serve an emulator's `app` on a bound socket until cancelled; the socket is closed at the end."""
    config = uvicorn.Config(
        hang_up_on_cut(app),
        http=HangUpProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    server = _Server(config, task_status.started)
    try:
        await server.serve(sockets=[sock])
    finally:
        if server.started:  # a cancelled uvicorn leaves its sockets open
            with anyio.CancelScope(shield=True):
                await server.shutdown(sockets=[sock])
        sock.close()


def hang_up_on_cut(app: ASGIApp) -> ASGIApp:
    """The application, with `ConnectionCut` turned into a closed connection, or one over which nothing comes."""

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except ConnectionCut as cut:
            if not cut.is_silent:
                scope["extensions"][HANG_UP]["reset" if cut.reset else "close"]()
            # uvicorn answers 500 for an application that returns before the connection is known to be lost.
            while (await receive())["type"] != "http.disconnect":
                pass

    return outer


class HangUpProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol; each request's scope can close the connection. What was written goes out first."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {HANG_UP: {"close": self.transport.close, "reset": self._reset}}

    def _reset(self) -> None:
        """Close so that the peer reads "connection reset": a socket that lingers for no time is not closed in peace."""
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, which are the program's own affair."""

    def __init__(self, config: uvicorn.Config, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
