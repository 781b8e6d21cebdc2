"""The listening socket, and uvicorn behind it, run as one service of the process.

The socket is bound when the `Listener` is made, so that an address in use is found before anything is sent. uvicorn is
used without its own main loop: that would take over the signals, and wakes up ten times a second for headers that we do
not send.
"""

import errno
import logging
import os
import socket
from typing import Final

import anyio
import uvicorn
from anyio.abc import TaskStatus
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from orchestrator.client.http.open_files import listener_part, open_files_allowed
from orchestrator.core.service.addresses import Address
from orchestrator.errors import UsageError
from orchestrator.web.listener_connection import CONNECTIONS_MAX, Crowd, WebhookConnection

GRACE_S: Final = 5.0
"""How long requests in flight may go on once the listener stops."""

KEEP_ALIVE_S: Final = 75
"""How long a connection may be idle between two requests."""

CLOSED: Final = -1
"""The descriptor of a socket that was closed."""

DRAIN_POLL_S: Final = 0.01
"""How often a stopping listener looks whether its last connection has closed."""

BACKLOG: Final = 2_048
"""Connections that may wait to be accepted."""

_ADVICE: Final = {
    errno.EADDRINUSE: "another program listens there; stop it, or choose another port (0 takes any free one)",
    errno.EACCES: "the system does not allow it; choose a port above 1023",
    errno.EADDRNOTAVAIL: "no interface of this machine has that address; choose one of its own, or leave the host out",
}


class Listener:
    """An HTTP server on `address`, serving `app` (see `web.application`).

    Binds at once and raises UsageError where that fails. At most `connections_max` connections are open at once, by
    default as many as the system's limit on open files leaves room for (which is raised where it may be).
    """

    def __init__(
        self, app: ASGIApp, address: Address, *, grace_s: float = GRACE_S, connections_max: int | None = None
    ) -> None:
        self._app = app
        self._grace_s = grace_s
        self._crowd = Crowd(connections_max or min(CONNECTIONS_MAX, listener_part(open_files_allowed())))
        self._socket = _bound(address)
        host, port = self._socket.getsockname()[:2]
        self.address = Address(host, port)
        """Where it really listens: with the port that the system chose, where 0 was asked for."""

    @property
    def url(self) -> str:
        """`http://host:port`."""
        return f"http://{self.address}"

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Serves until cancelled; then takes no more, gives requests in flight `grace_s`, and closes what is left.
        Where it was closed before it binds its address anew, and raises UsageError where that fails.
        """
        if self._socket.fileno() == CLOSED:
            self._socket = _bound(self.address)
        server = uvicorn.Server(self._config())
        server.server_state = self._crowd
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        try:
            with anyio.CancelScope(shield=True):  # else a cancellation could leave a half-made server behind
                await server.startup(sockets=[self._socket])
            try:
                task_status.started()
                await anyio.sleep_forever()
            finally:
                with anyio.CancelScope(shield=True):  # bounded by grace_s
                    await _stop(server, self._grace_s)
        finally:
            self.close()

    def close(self) -> None:
        """Frees the address; for a listener that is not served, or not yet. Harmless when repeated."""
        self._socket.close()

    def _config(self) -> uvicorn.Config:
        return uvicorn.Config(
            self._app,
            http=WebhookConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            # Its warnings are about what strangers send; what goes wrong in our own code is logged by `application`.
            log_level=logging.CRITICAL,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            workers=1,  # else taken from the environment
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
        )


def _bound(address: Address) -> socket.socket:
    try:
        family, _, _, _, sockaddr = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return socket.create_server(sockaddr, family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError) as error:  # UnicodeError: an empty or overlong part, as in "a..b"
        raise UsageError(f"cannot listen on {address}: no such host; write an address of this machine") from error
    except OSError as error:
        number = error.errno or errno.EIO
        advice = _ADVICE.get(number, "choose another address")
        raise UsageError(f"cannot listen on {address}: {os.strerror(number)}; {advice}") from error


async def _stop(server: uvicorn.Server, grace_s: float) -> None:
    """What `uvicorn.Server.shutdown` does, without its fixed pauses and its log, and to the very end."""
    state = server.server_state
    for listening in server.servers:
        listening.close()
    for connection in tuple(state.connections):
        connection.shutdown()
    with anyio.move_on_after(grace_s):
        await _drained(state)
    for task in tuple(state.tasks):
        task.cancel()
    for connection in tuple(state.connections):
        connection.transport.abort()
    await _drained(state)
    for listening in server.servers:
        await listening.wait_closed()


async def _drained(state: ServerState) -> None:
    """Waits until the last request has been answered and the last connection has closed."""
    while state.tasks or state.connections:  # noqa: ASYNC110  uvicorn has no event for it
        await anyio.sleep(DRAIN_POLL_S)
