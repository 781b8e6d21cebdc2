"""Who asks: whose key a request carries. A wrong one is told apart in no time that tells anything.

Without keys whoever reaches us may ask, and that is what runs on this machine. A page of somebody else's in a browser
here is not meant: what comes from one is refused, and so is what calls us by a name that only looks like ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from secrets import compare_digest, token_hex
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.batch_api.answers import REQUEST_ID, error_answer
from orchestrator.views.batch_api import ErrorBody
from orchestrator.web.host_and_origin import is_our_host

OWNER: Final = "owner"
"""In the state of a request: the name of the key that it carries; empty where there are no keys."""

REQUEST_ID_BYTES: Final = 12

_BEARER: Final = "bearer "
_UNAUTHORIZED: Final = ErrorBody(
    message="Incorrect API key provided. You can ask whoever runs this server for one.",
    type="invalid_request_error",
    code="invalid_api_key",
)


_FROM_A_PAGE: Final = ErrorBody(
    message="Without keys this server answers programs on its own machine, and no pages in a browser.",
    type="invalid_request_error",
)
_CLOSE: Final = {"Connection": "close"}


def _is_of_a_page(request: Request) -> bool:
    """Whether it may have been sent by a page in a browser (CSRF), or for one that has its name lead to us (DNS
    rebinding). Programs name no origin.
    """
    headers = request.headers
    return "origin" in headers or "sec-fetch-site" in headers or not is_our_host(headers.get("host", ""), None)


def key_owner(request: Request) -> str:
    """Who asks."""
    owner: str = request.scope["state"][OWNER]
    return owner


@dataclass(kw_only=True, eq=False)
class KeyCheck:
    """`app` for those whose key is among `keys`, by name; for all where there are none."""

    app: ASGIApp
    keys: Mapping[str, str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        name = f"req_{token_hex(REQUEST_ID_BYTES)}"

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = name
            await send(message)

        await self._answer({**scope, "state": {**scope.get("state", {}), REQUEST_ID: name}}, receive, named)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        owner = self._owner(request) if self.keys else ""
        if owner is None:
            await error_answer(HTTPStatus.UNAUTHORIZED, _UNAUTHORIZED, _CLOSE)(scope, receive, send)
            return
        if not self.keys and _is_of_a_page(request):
            await error_answer(HTTPStatus.FORBIDDEN, _FROM_A_PAGE, _CLOSE)(scope, receive, send)
            return
        scope["state"][OWNER] = owner
        await self.app(scope, receive, send)

    def _owner(self, request: Request) -> str | None:
        given = request.headers.get("authorization", "")
        if not given.lower().startswith(_BEARER):
            return None
        sent = given[len(_BEARER) :].strip().encode("utf-8", "surrogateescape")
        found = [name for name, key in self.keys.items() if compare_digest(sent, key.encode())]  # all are looked at
        return found[0] if found else None
