"""HTTP without a network: requests go to an ASGI app in the same loop, and travel for virtual seconds.

The app runs in the task of the caller, so a caller that gives up cancels it wherever it is.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio
import httpx

from orchestrator.errors import NotSent, Unanswered

Message = MutableMapping[str, Any]
ASGIApp = Callable[[Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]


class SimulatedTransport(httpx.AsyncBaseTransport):
    """A transport to one app.

    Args:
        app: the server.
        travel_s: the virtual seconds of one way; called twice for each request, on the way there and on the way back.
        down: whether connections are refused now; asked when the request arrives.
        cut: exceptions of the app that stand for a connection dropped after the request was read. Any other
            exception of the app is a bug and reaches the caller as it is.
        client: the address from which the app sees the request come.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        travel_s: Callable[[], float] = lambda: 0.0,
        down: Callable[[], bool] = lambda: False,
        cut: type[BaseException] | tuple[type[BaseException], ...] = (),
        client: tuple[str, int] = ("127.0.0.1", 40_000),
    ) -> None:
        self._server = httpx.ASGITransport(app, client=client)
        self._travel_s = travel_s
        self._down = down
        self._cut = cut

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Carry one request there and its answer back.

        Raises:
            NotSent: the connection was refused.
            Unanswered: the app has read the request and cut the connection.
        """
        await anyio.sleep(self._travel_s())
        if self._down():
            raise NotSent(f"{request.url.host} refused the connection")
        try:
            response = await self._server.handle_async_request(request)
        except self._cut as error:
            # The news of a cut travels as an answer would.
            await anyio.sleep(self._travel_s())
            raise Unanswered(f"{request.url.host} cut the connection") from error
        await anyio.sleep(self._travel_s())
        return response
