"""One connection to the listener: uvicorn's, with the limits that it lacks.

uvicorn bounds neither the size of a request's head nor the time it may take, closes no connection that never sends
anything, and counts connections only once they ask something. Strangers could so take all memory or all file
descriptors of the process, which the ledger and the client need too.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 64 * 1024
"""Request line and headers. A service's webhook has under 1 KiB of them."""

HEAD_S_MAX: Final = 10.0
"""From the connection's beginning, or from the first byte of a later request, to the end of the head."""

CONNECTIONS_MAX: Final = 512
"""Connections beyond this are closed at once."""

KEPT_ALIVE_MAX: Final = 256
"""While there are more connections than this none is kept open after its answer, so that idle ones lock nobody out."""


class Connection(HttpToolsProtocol):
    """uvicorn's protocol; `head_s_max` and `connections_max` are settings of a subclass."""

    head_s_max: float = HEAD_S_MAX
    connections_max: int = CONNECTIONS_MAX
    kept_alive_max: int = KEPT_ALIVE_MAX

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = True
        self._head_bytes = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        if len(self.connections) > self.connections_max:
            transport.abort()
            return
        self._head_timer = self.loop.call_later(self.head_s_max, transport.abort)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data)
        super().data_received(data)
        if not self._in_head:
            return
        if self._head_bytes > HEAD_BYTES_MAX:
            self.transport.abort()
        elif self._head_bytes and self._head_timer is None:
            self._head_timer = self.loop.call_later(self.head_s_max, self.transport.abort)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_head_timer()
        super().on_headers_complete()
        if len(self.connections) > self.kept_alive_max:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head = True
        self._head_bytes = 0

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        super().connection_lost(exc)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
