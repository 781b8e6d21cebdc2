"""What the emulator can say to a request: an answer, a refusal, or nothing at all."""

import sys
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

T = TypeVar("T")

_BOMB_PART_BYTES: Final = 1024 * 1024

HTML_PAGE = b"<!DOCTYPE html><html><head><title>Error</title></head><body><h1>Something went wrong</h1></body></html>"


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP answer, complete and not yet sent."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    more: AsyncIterator[bytes] | None = None
    """What comes behind the body, as long as it lasts: the answer is a stream, of which that is the beginning."""

    changes: bool = False
    """Something of the account was created, changed or deleted: to ask again is not the same as to ask once."""


class ErrorBodies(StrEnum):
    """What the body of an error looks like; the contract does not show it."""

    JSON = "json"
    """`{"error": "<text>"}`"""
    PLAIN = "plain"
    HTML = "html"
    EMPTY = "empty"


def in_form(answer: HttpAnswer, form: ErrorBodies) -> HttpAnswer:
    """An error (status 400 and above) with its body in that form; any other answer as it is."""
    if answer.status < 400 or form is ErrorBodies.JSON:  # noqa: PLR2004
        return answer
    if form is ErrorBodies.PLAIN:
        text = msgspec.json.decode(answer.body, type=_ErrorBody).text()
        return msgspec.structs.replace(answer, body=text.encode(), content_type="text/plain")
    if form is ErrorBodies.HTML:
        return msgspec.structs.replace(answer, body=HTML_PAGE, content_type="text/html")
    return msgspec.structs.replace(answer, body=b"")


class _ErrorBody(msgspec.Struct):
    """The sentence in an error of any interface: the job API's and `/v1`'s, a problem document's, GraphQL's."""

    error: str = ""
    detail: str = ""
    errors: list[Any] = []

    def text(self) -> str:
        return self.error or self.detail or str(self.errors[0]["message"])


_ERROR: Final = b'"error":"'


def with_strange_error(body: bytes) -> bytes:
    """A body whose error, if it tells one as text, begins with U+0000 and half of a character."""
    return body.replace(_ERROR, rb"%b\u0000\ud83d " % _ERROR)


def bombed(answer: HttpAnswer, size: int) -> HttpAnswer:
    """An answer that unpacks to `size` bytes, or a little more: JSON whose text has no end."""
    whole, part = b'{"output":"', bytes(_BOMB_PART_BYTES).replace(b"\0", b" ")
    packed = zstd.compress(whole) + zstd.compress(part) * -(-size // _BOMB_PART_BYTES)
    return msgspec.structs.replace(answer, body=packed, headers=(*answer.headers, ("Content-Encoding", "zstd")))


class ServiceRefusal(Exception):
    """The request was understood and turned down, with an HTTP status and a sentence for its sender.

    `headers` are sent along (`Retry-After`).
    """

    def __init__(self, status: int, error: str, headers: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(error)
        self.status = status
        self.error = error
        self.headers = headers

    def answer(self) -> HttpAnswer:
        """The refusal as it goes over the wire: `{"error": "<text>"}` (as observed)."""
        return self._as({"error": self.error})

    def answer_v1(self) -> HttpAnswer:
        """The same as REST v1 says it."""
        return self._as({"error": self.error, "status": self.status})

    def answer_graphql(self) -> HttpAnswer:
        """The same as GraphQL says it, where no operation was begun."""
        return self._as({"errors": [{"message": self.error}]})

    def _as(self, body: object) -> HttpAnswer:
        return HttpAnswer(status=self.status, body=msgspec.json.encode(body), headers=self.headers)


def converted(value: object, kind: type[T]) -> T:
    """The value, or the JSON text, as a `kind`. Raises ServiceRefusal 400."""
    try:
        return msgspec.json.decode(value, type=kind) if isinstance(value, bytes) else msgspec.convert(value, kind)
    except (ValueError, RecursionError) as error:
        raise ServiceRefusal(400, f"request could not be processed: {error}") from None


PROBLEM_TYPE = "application/problem+json"

_PROBLEM_TITLES = {HTTPStatus.UNPROCESSABLE_ENTITY: "Unprocessable Entity"}
"""Where Python calls a status otherwise than the service does (3.13 renamed it)."""


class ProblemDocument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The body (contract of pods, Errors)."""

    title: str
    status: int
    detail: str
    errors: tuple[str, ...] = ()


class ProblemRefusal(Exception):
    """The request is turned down with `status`; `errors` are the single failures of its validation."""

    def __init__(
        self, status: int, detail: str, errors: Sequence[str] = (), headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = tuple(errors)
        self.headers = headers

    def answer(self) -> HttpAnswer:
        """The problem as it goes over the wire."""
        title = _PROBLEM_TITLES.get(HTTPStatus(self.status), HTTPStatus(self.status).phrase)
        document = ProblemDocument(title=title, status=self.status, detail=self.detail, errors=self.errors)
        return HttpAnswer(
            status=self.status, body=msgspec.json.encode(document), content_type=PROBLEM_TYPE, headers=self.headers
        )


def malformed_problem() -> ProblemRefusal:
    """400: what came is not even JSON."""
    return ProblemRefusal(HTTPStatus.BAD_REQUEST, "request could not be processed")


def invalid_problem(errors: Sequence[str]) -> ProblemRefusal:
    """422: JSON, and not of the form that the operation takes."""
    return ProblemRefusal(HTTPStatus.UNPROCESSABLE_ENTITY, "Request validation failed.", errors)


def not_found_problem() -> ProblemRefusal:
    """404: there is no such thing, or it is somebody else's."""
    return ProblemRefusal(HTTPStatus.NOT_FOUND, "resource not found")


class ConnectionCut(Exception):
    """The connection breaks here: its sender gets no answer, or only the beginning of one.

    It leaves the ASGI application on purpose. `listen` turns it into a closed socket; a transport that calls the
    application in-process turns it into whatever it raises for a connection that broke after the request was sent.
    With `reset` the socket is not closed in peace: its peer reads "connection reset". If it `is_silent`, nothing closes
    it before the peer does so.
    """

    def __init__(self, *, reset: bool = False, is_silent: bool = False) -> None:
        super().__init__()
        self.reset = reset
        self.is_silent = is_silent
