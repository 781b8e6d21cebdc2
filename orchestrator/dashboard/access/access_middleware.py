"""What every request passes before it is answered, 401 and 403 among it: whose name it calls us by, whether a page of
ours sends it, who asks, and how large it is.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orchestrator.clock import Clock
from orchestrator.dashboard.access.authentication import Visitors
from orchestrator.dashboard.access.body_limit import BODY_BYTES_MAX, declared_is_too_large, limited
from orchestrator.dashboard.access.response_headers import harden
from orchestrator.dashboard.access.tokens import Person
from orchestrator.errors import StorageError
from orchestrator.units import KIB, MILLISECOND_US
from orchestrator.web.host_and_origin import SAFE_METHODS, is_from_our_page, is_our_host, is_trusted

log = logging.getLogger(__name__)

PERSON: Final = "person"
"""In the state of a request: who asks; None for a stranger, who gets to the open paths only."""

HEALTH: Final = "/healthz"
METRICS: Final = "/metrics"
LOGIN: Final = "/login"
LOGOUT: Final = "/logout"
_STATIC: Final = "/static/"

UNMONITORED: Final = (HEALTH, METRICS, _STATIC)
"""Requests that are not logged: monitoring makes one every few seconds, and each page several."""


def person_of(request: Request) -> Person | None:
    """Who asks."""
    person: Person | None = request.scope["state"][PERSON]
    return person


@dataclass(kw_only=True, eq=False)
class AccessMiddleware:
    """`app` behind all of that; `refuse` answers whoever does not get in."""

    app: ASGIApp
    visitors: Visitors
    refuse: Callable[[Request, Exception], Awaitable[Response]]
    clock: Clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            return
        began = self.clock.now()
        status = 500
        scope = self._inside(scope)
        receive = limited(receive)
        request = Request(scope, receive)
        trusted = is_trusted(request.headers.get("host", ""), self.visitors.settings.origin)

        async def hardened(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                harden(MutableHeaders(scope=message), is_trusted=trusted)
            await send(message)

        try:
            refusal = self._refusal(request)
            answer = self.app if refusal is None else await self.refuse(request, refusal)
            await answer(scope, receive, hardened)
        finally:
            if not scope["path"].startswith(UNMONITORED):
                took_ms = (self.clock.now() - began) // MILLISECOND_US
                person = person_of(request)
                name = "a stranger" if person is None else person.name
                path = _seen(scope["path"])
                log.info("%s %s by %s: %d in %d ms", scope["method"], path, ascii(name), status, took_ms)

    def _inside(self, scope: Scope) -> Scope:
        """The same request as it is below our prefix, which a proxy may have taken away already. A slash at its end
        says nothing.
        """
        path, prefix = scope["path"], self.visitors.settings.prefix
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            path = path[len(prefix) :] or "/"
        path = path.rstrip("/") or "/"
        return {**scope, "path": path, "raw_path": path.encode(), "state": {**scope.get("state", {}), PERSON: None}}

    def _refusal(self, request: Request) -> Exception | None:
        """Why it is not answered; notes who asks."""
        refusal = self._misfit(request)
        if refusal is not None:
            return refusal
        try:
            person = self.visitors.person(request)
        except StorageError as error:
            return error
        request.scope["state"][PERSON] = person
        path = request.scope["path"]
        if person is None and not (_is_health(path) or path in (LOGIN, METRICS) or path.startswith(_STATIC)):
            return HTTPException(401, "Sign in first.")
        if request.method not in SAFE_METHODS and path not in (LOGIN, LOGOUT) and not self.visitors.may_act(person):
            return HTTPException(403, "You may look, and not act.")
        return None

    def _misfit(self, request: Request) -> HTTPException | None:
        """Why nobody can be let in by it, whoever asks."""
        own = self.visitors.settings.origin
        if not _is_health(request.scope["path"]) and not is_our_host(request.headers.get("host", ""), own):
            return HTTPException(421, "This is not the name of this dashboard.")
        if request.method not in SAFE_METHODS:
            if not is_from_our_page(request.headers, own):
                return HTTPException(403, "This was not sent by a page of this dashboard.")
            if declared_is_too_large(request.headers.get("content-length")):
                return HTTPException(413, f"more than {BODY_BYTES_MAX // KIB} KiB are not read")
        return None


def _is_health(path: str) -> bool:
    return path == HEALTH or path.startswith(f"{HEALTH}/")


def _seen(path: str) -> str:
    """A path as it may stand in a log."""
    return path if path.isascii() and path.isprintable() else ascii(path)
