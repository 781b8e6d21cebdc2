"""A transport to an ASGI app in this process: no port, no socket, nobody else can reach it."""

from typing import Any

import httpx

from orchestrator.errors import Unanswered


class InProcess(httpx.AsyncBaseTransport):
    """Carries requests to `app`. `cut` is what the app raises where a server would drop the connection."""

    def __init__(self, app: Any, *, cut: type[Exception]) -> None:
        self._server = httpx.ASGITransport(app)
        self._cut = cut

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The app's answer; raises `Unanswered` where it cut the connection."""
        try:
            return await self._server.handle_async_request(request)
        except self._cut:
            raise Unanswered("the service cut the connection before the answer") from None
