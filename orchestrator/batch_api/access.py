"""Who asks: whose key a request carries. A wrong one is told apart in no time that tells anything."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from secrets import compare_digest
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.batch_api.answers import error_answer
from orchestrator.views.batch_api import ErrorBody

OWNER: Final = "owner"
"""In the state of a request: the name of the key that it carries; empty where there are no keys."""

_BEARER: Final = "bearer "
_UNAUTHORIZED: Final = ErrorBody(
    message="Incorrect API key provided. You can ask whoever runs this server for one.",
    type="invalid_request_error",
    code="invalid_api_key",
)


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
        owner = self._owner(Request(scope)) if self.keys else ""
        if owner is None:
            answer = error_answer(HTTPStatus.UNAUTHORIZED, _UNAUTHORIZED, {"Connection": "close"})
            await answer(scope, receive, send)
            return
        await self.app({**scope, "state": {**scope.get("state", {}), OWNER: owner}}, receive, send)

    def _owner(self, request: Request) -> str | None:
        given = request.headers.get("authorization", "")
        if not given.lower().startswith(_BEARER):
            return None
        sent = given[len(_BEARER) :].strip().encode("utf-8", "surrogateescape")
        found = [name for name, key in self.keys.items() if compare_digest(sent, key.encode())]  # all are looked at
        return found[0] if found else None
