"""One connection to the listener of webhooks: uvicorn's, with the limits that it lacks (time-outs, sizes, how many).

uvicorn bounds neither the size of a request's head nor the time it may take, closes no connection that never sends
anything, and counts connections only once they ask something. Strangers could so take all memory or all file
descriptors of the process, which the ledger and the client need too.

When there is no room for another connection, the one that has waited longest for its sender is closed: first among
those whose first request has not come, then among those that are idle between two webhooks. Refusing the newcomer
instead would let a few hundred silent connections lock the service out. A sender that means it has sent its head long
before its turn to be closed comes.
"""

import asyncio
from itertools import chain
from typing import Any, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from orchestrator.client.http.idle_timeout import LATE_S

HEAD_BYTES_MAX: Final = 16 * 1024
"""Request line and headers. A service's webhook has under 1 KiB of them, and what proxies add is of the same order."""

HEAD_S_MAX: Final = 10.0
"""From the connection's beginning, or from the first byte of a later request, to the end of the head."""

WHOLE_BODY: Final = "whole_body"
"""In the state of a request's scope once all of its body has come, so that nobody has to wait for it."""

CONNECTIONS_MAX: Final = 512
"""The most connections at once; fewer where the system allows few open files (`client.http.open_files`)."""


class Crowd(ServerState):
    """What all connections of a listener share: who waits for its sender, those that have waited longest first."""

    def __init__(self, connections_max: int = CONNECTIONS_MAX) -> None:
        super().__init__()
        self.connections_max = connections_max
        self.strangers: dict[WebhookConnection, None] = {}
        """Connections whose first request has not come yet."""
        self.idle: dict[WebhookConnection, None] = {}
        """Connections that were kept open after an answer."""
        self.closed_for_room = 0

    @property
    def is_full(self) -> bool:
        """Whether there are more connections than there may be."""
        return len(self.connections) > self.connections_max

    def make_room(self, newcomer: "WebhookConnection") -> None:
        """Closes whoever has waited longest, or `newcomer` where all others are at work."""
        waiting = chain(self.strangers, self.idle)
        longest = next((connection for connection in waiting if connection is not newcomer), newcomer)
        self.closed_for_room += 1
        longest.close_at_once()


class WebhookConnection(HttpToolsProtocol):
    """uvicorn's protocol. `server_state` must be a `Crowd`; `head_s_max` is a setting of a subclass."""

    head_s_max: float = HEAD_S_MAX

    def __init__(self, config: Config, server_state: Crowd, **settings: Any) -> None:
        super().__init__(config, server_state, **settings)
        self._crowd = server_state
        self._in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._wait_for_head(self.head_s_max)
        self._crowd.strangers[self] = None
        if self._crowd.is_full:
            self._crowd.make_room(self)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_head:
            return
        if self._head_bytes > HEAD_BYTES_MAX:
            self.close_at_once()
        elif self._head_bytes and self._head_timer is None:
            self._wait_for_head(self.head_s_max)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            raise ValueError("the head is too long")  # it came in one piece; uvicorn answers 400 and closes
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.scope["state"][WHOLE_BODY] = True  # nothing that leads back to the scope: it would outlive its request
        super().on_message_complete()
        self._in_head = True
        self._head_bytes = 0

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None:  # uvicorn waits for another request
            self._crowd.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def close_at_once(self) -> None:
        """Ends the connection, whatever it is doing; it no longer counts."""
        self._stop_waiting()
        self.connections.discard(self)
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """As in uvicorn, but for a late timer, see `_head_is_late`."""
        timer = self.timeout_keep_alive_task
        if timer is not None and _was_asleep(self.loop, timer):
            self.timeout_keep_alive_task = self.loop.call_later(LATE_S, self.timeout_keep_alive_handler)
        else:
            super().timeout_keep_alive_handler()

    def _wait_for_head(self, seconds: float) -> None:
        self._head_timer = self.loop.call_later(seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        """Closes the connection; where the timer itself is late, not before what came meanwhile has been read."""
        if self._head_timer is not None and _was_asleep(self.loop, self._head_timer):
            self._wait_for_head(LATE_S)
        else:
            self.transport.abort()

    def _stop_waiting(self) -> None:
        self._crowd.strangers.pop(self, None)
        self._crowd.idle.pop(self, None)
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _was_asleep(loop: asyncio.AbstractEventLoop, timer: asyncio.TimerHandle) -> bool:
    """Whether the process stood still when `timer`, which has gone off, fell due."""
    return loop.time() > timer.when() + LATE_S
