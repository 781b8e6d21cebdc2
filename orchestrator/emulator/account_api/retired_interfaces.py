"""Interfaces that the service does not have, or no longer: whatever is asked of them is answered 404 or 410, as each
says it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orchestrator.emulator.account_api.rest_v1 import GRAPHQL_PATHS, PUBLIC_PATH
from orchestrator.emulator.account_api.rest_v2 import METHODS
from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal, ServiceRefusal
from orchestrator.emulator.http.delivery import AnswerResponse
from orchestrator.emulator.http.wire import OutgoingAnswer

_PATHS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "v1": ("/v1/{path:path}",),
        "v2": tuple(f"/v2/{area}{{path:path}}" for area in ("serverless", "templates", "account/", "catalog")),
        "graphql": (*GRAPHQL_PATHS, PUBLIC_PATH),
    }
)
"""By the name of the interface. Pods are not among those of v2: the contract has them there only."""

INTERFACES = tuple(_PATHS)

_SAID = MappingProxyType({404: "not found", 410: "this interface was retired"})


def retired_routes(without: Mapping[str, int]) -> list[Route]:
    """The routes that take the place of those interfaces; `without` has the status of each."""
    return [
        Route(path, partial(_answer, _FORMS[name], status), methods=METHODS)
        for name, status in without.items()
        for path in _PATHS[name]
    ]


_FORMS: Mapping[str, Callable[[ServiceRefusal], HttpAnswer]] = MappingProxyType(
    {
        "v1": ServiceRefusal.answer_v1,
        "v2": lambda refusal: ProblemRefusal(refusal.status, refusal.error).answer(),
        "graphql": ServiceRefusal.answer_graphql,
    }
)


async def _answer(form: Callable[[ServiceRefusal], HttpAnswer], status: int, _request: Request) -> Response:
    return AnswerResponse(OutgoingAnswer(answer=form(ServiceRefusal(status, _SAID[status]))))
