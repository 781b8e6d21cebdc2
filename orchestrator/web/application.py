"""The listener's application: routes side by side, and for everything else one tiny 404 that tells nothing.

Routes are Starlette's; the webhooks' own (`web.webhook_routes`) is one of them. Requests are not logged, nor is what
a failed one held: an error is logged by the name of its class, its traceback at debug level.
"""

import logging
from typing import Final

from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger(__name__)

_NOTHING_MORE: Final[Message] = {"type": "http.response.body", "body": b"", "more_body": False}


def empty_response(status: int, *, close: bool = False) -> Message:
    """The start of an answer without a body; with `close` the connection ends with it."""
    headers = [(b"content-length", b"0")]
    if close:
        headers.append((b"connection", b"close"))
    return {"type": "http.response.start", "status": status, "headers": headers}


_NOT_FOUND: Final = empty_response(404, close=True)


async def send_response(send: Send, start: Message) -> None:
    """Sends an answer that `empty_response` made."""
    await send(start)
    await send(_NOTHING_MORE)


async def send_text(send: Send, text: str) -> None:
    """Sends 200 with a short text."""
    body = text.encode()
    headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def send_not_found(_scope: Scope, _receive: Receive, send: Send) -> None:
    """The one answer to whatever is not for us. The request's body is not read: the connection is closed instead."""
    await send_response(send, _NOT_FOUND)


def listener_application(*routes: BaseRoute) -> ASGIApp:
    """One ASGI application of `routes`, asked in their order."""
    router = Router(routes, redirect_slashes=False, default=send_not_found)

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await router(scope, receive, send)
        except Exception as error:
            log.error("a request to the listener failed: %s", type(error).__name__)  # noqa: TRY400  see the module
            log.debug("the failed request", exc_info=error)
            raise

    return guarded
