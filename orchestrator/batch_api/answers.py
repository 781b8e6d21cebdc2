"""What is answered: JSON in the form of OpenAI's interface, errors too, so that its clients raise what they would."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.api.batch_api.refusals import RefusalKind, RequestRefusedError
from orchestrator.errors import LedgerUnavailableError, OrchestratorError, keyword_name, with_settings_named
from orchestrator.views.batch_api import ErrorBody

log = logging.getLogger(__name__)

_STATUS: Final[Mapping[RefusalKind, HTTPStatus]] = {
    RefusalKind.INVALID: HTTPStatus.BAD_REQUEST,
    RefusalKind.NOT_FOUND: HTTPStatus.NOT_FOUND,
    RefusalKind.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    RefusalKind.CONFLICT: HTTPStatus.CONFLICT,
}

REQUEST_ID: Final = "x-request-id"
"""The header of each answer by which a program, and whoever runs this, find one request again."""

_INVALID: Final = "invalid_request_error"
_OURS: Final = "server_error"


def json_answer(value: msgspec.Struct, *, status: int = HTTPStatus.OK) -> Response:
    """An answer that is `value`."""
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def error_answer(status: int, body: ErrorBody, headers: Mapping[str, str] | None = None) -> Response:
    """An answer that says what is wrong."""
    text = msgspec.json.encode({"error": body})
    return Response(text, status_code=status, media_type="application/json", headers=headers)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestRefusedError)
    told = with_settings_named(error.message, keyword_name)
    body = ErrorBody(message=told, type=_INVALID, param=error.param, code=error.code)
    # What was refused may still be on its way: it is not read to its end.
    return error_answer(_STATUS[error.kind], body, {"Connection": "close"})


async def _no_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = f"Invalid URL ({request.method} {request.url.path[:200]})"
    said = text if error.status_code == HTTPStatus.NOT_FOUND else f"{text}: {error.detail}"
    return error_answer(error.status_code, ErrorBody(message=said, type=_INVALID), error.headers)


_FAILED: Final = ErrorBody(
    message="The server had an error while processing your request. Whoever runs it finds in its log why.", type=_OURS
)


async def _failed(request: Request, error: Exception) -> Response:
    """What goes wrong here is asked again by whoever asked. Why is no business of theirs: it names our files."""
    why = error if isinstance(error, OrchestratorError) else type(error)
    log.error("%s, a request to the Batch API, failed: %s", request.scope["state"][REQUEST_ID], why)
    log.debug("the failed request", exc_info=error)
    return error_answer(HTTPStatus.INTERNAL_SERVER_ERROR, _FAILED)


_AWAY: Final = ErrorBody(
    message="This server cannot write down now what you ask. Ask again later; whoever runs it is told why.", type=_OURS
)
_AGAIN_S: Final = 15


async def _unavailable(_request: Request, _error: Exception) -> Response:
    """Whoever runs this is told of it once, and not by each request."""
    headers = {"Retry-After": str(_AGAIN_S), "Connection": "close"}
    return error_answer(HTTPStatus.SERVICE_UNAVAILABLE, _AWAY, headers)


HANDLERS: Final[Mapping[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]] = {
    RequestRefusedError: _refused,
    HTTPException: _no_route,
    LedgerUnavailableError: _unavailable,
    OrchestratorError: _failed,
    Exception: _failed,
}
