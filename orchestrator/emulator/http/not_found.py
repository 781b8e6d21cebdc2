"""What the emulator has no answer for: a path that is not there, or a method that the path does not take.

The answer has the form of the interface that the path belongs to, whose errors all look alike: `{"error"}` of jobs,
`{"error","status"}` of `/v1`, problem documents of the other paths below `/v2`, and `{"errors"}` of GraphQL. As
everywhere, the key is looked at first.
"""

import logging
from collections.abc import Collection
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response

from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal, ServiceRefusal
from orchestrator.emulator.contract.callers import CallerAccess
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.wire import key_in

log = logging.getLogger(__name__)

NOTED_MAX = 200
"""So many calls are told of; who tries all paths there are does not fill a disk."""

AREAS = frozenset(
    {
        *("account", "billing", "catalog", "clusters", "global-volumes", "network-volumes", "openapi.json", "pods"),
        *("registries", "sandboxes", "secrets", "serverless", "templates"),
    }
)
"""What stands behind `/v2` where it is no endpoint's id (as observed)."""

NOT_SERVED = frozenset(
    {
        *("billing", "clusters", "global-volumes", "network-volumes", "openapi.json", "registries", "sandboxes"),
        *("account/ssh-keys", "catalog/templates"),
    }
)
"""What the service has there and the emulator has not."""

_OPEN = frozenset({"", "emulator"})
"""What begins a path that needs no key."""


class UnservedCalls:
    """Tells once of each call that nothing here answers."""

    def __init__(self) -> None:
        self._noted: set[str] = set()

    def note(self, call: str) -> None:
        """The call came."""
        call = "".join(letter if letter.isprintable() else "?" for letter in call)[:200]
        if call not in self._noted and len(self._noted) < NOTED_MAX:
            self._noted.add(call)
            log.warning("the emulator does not serve %s", call)


def refusal_answer(path: str, status: int, sentence: str, headers: tuple[tuple[str, str], ...] = ()) -> HttpAnswer:
    """An error in the form of the interface that `path` belongs to."""
    first, _, rest = path.strip("/").partition("/")
    if first == "v2" and rest.partition("/")[0] in AREAS:
        return ProblemRefusal(status, sentence, headers=headers).answer()
    refusal = ServiceRefusal(status, sentence, headers)
    return {"graphql": refusal.answer_graphql, "v1": refusal.answer_v1}.get(first, refusal.answer)()


class UnservedAnswer:
    """Answers what no route takes; the key is to be one of `access`."""

    def __init__(self, access: CallerAccess, delivery: AnswerDelivery, notes: UnservedCalls) -> None:
        self._access = access
        self._delivery = delivery
        self._notes = notes

    async def answer(self, request: Request, allowed: Collection[str]) -> Response:
        """The answer; `allowed` are the methods that the path takes, if it is there. Raises ConnectionCut."""
        wire = self._delivery.wire
        wire.connect(self._delivery.clock.now())
        return await self._delivery.deliver(wire.sending(self._refusal(request, allowed), changes=False))

    def _refusal(self, request: Request, allowed: Collection[str]) -> HttpAnswer:
        path = request.url.path
        key = key_in(request.headers.get("authorization", "")) or request.query_params.get("api_key", "")
        if path.strip("/").partition("/")[0] not in _OPEN and not self._access.takes(key):
            return refusal_answer(path, HTTPStatus.UNAUTHORIZED, "unauthorized")
        if allowed:
            headers = (("allow", ", ".join(sorted(allowed))),)
            return refusal_answer(path, HTTPStatus.METHOD_NOT_ALLOWED, "method not allowed", headers)
        self._notes.note(f"{request.method} {path}")
        missing = _not_served(path)
        sentence = "not found" if missing is None else f"not found: the emulator does not serve /v2/{missing}"
        return refusal_answer(path, HTTPStatus.NOT_FOUND, sentence)


def _not_served(path: str) -> str | None:
    """What of `NOT_SERVED` the path belongs to."""
    first, _, rest = path.strip("/").partition("/")
    parts = rest.split("/")
    names = ("/".join(parts[:length]) for length in (1, 2)) if first == "v2" else ()
    return next((name for name in names if name in NOT_SERVED), None)
