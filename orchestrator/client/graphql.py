"""The GraphQL interface: one address, one POST for everything (contract, templates and secrets).

The rules:

- The body has one property, `query` (contract, Endpoints). Values stand in it as literals, so nothing else is needed.
- The API key goes in the query parameter `api_key` (contract, Authentication 1), or in a bearer header by setting. It
  stands in no message, log or `repr`, in none of its spellings; neither does what the caller asks to hide.
- Errors in an answer with status 200 are errors. Nothing is repeated: a mutation whose answer was lost may have
  happened.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar
from urllib.parse import quote, quote_plus

import httpx
import msgspec

from orchestrator.client.rest import AnswerError, ProblemError, problem
from orchestrator.client.serverless import KEY_CHARS_HIDDEN_MIN, request_headers
from orchestrator.client.transport import Transport
from orchestrator.core.outcome import Answer
from orchestrator.errors import UsageError
from orchestrator.settings import KeyPlace

T = TypeVar("T")

Value = str | int | bool | None | Sequence["Value"] | Mapping[str, "Value"]
"""What a GraphQL literal can say."""

SECRET_CHARS_HIDDEN_MIN: Final = 4
"""A shorter secret may be part of any word, and hiding it would show where it stands."""

MESSAGE_CHARS_MAX: Final = 500
"""How much of one message of the service is kept."""

MESSAGES_MAX: Final = 10

_OK_MAX: Final = 299
_PERHAPS: Final = "whether it happened is unknown"
_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")


class GraphQLError(ProblemError):
    """The service refused an operation, in a GraphQL answer: `errors` are its messages, `status` is often 200."""

    def __init__(self, operation: str, messages: Sequence[str], answer: Answer) -> None:
        self.operation = operation
        super().__init__(
            answer.status, "GraphQL error", f"{operation} was refused", tuple(messages), answer.retry_after_s
        )
        self.args = (f"the service refused {operation}: {'; '.join(messages)}",)


class _Error(msgspec.Struct, frozen=True):
    message: object = None


class _Response(msgspec.Struct, frozen=True):
    data: msgspec.Raw = msgspec.Raw(b"null")
    errors: Sequence[_Error] | None = None


class GraphQL:
    """The service's GraphQL address. `url` has no query; `api_key` is checked as everywhere (`UsageError`)."""

    def __init__(self, url: httpx.URL, api_key: str, transport: Transport, *, key_place: KeyPlace = "query") -> None:
        headers = request_headers(api_key)
        self._shown = str(url)
        self._url = url
        if key_place == "query":
            del headers[b"Authorization"]
            self._url = url.copy_set_param("api_key", api_key)
        self._headers = [(b"Host", url.netloc), *headers.items(), (b"Content-Type", b"application/json")]
        self._key = api_key if len(api_key) >= KEY_CHARS_HIDDEN_MIN else ""
        self._transport = transport

    def __repr__(self) -> str:
        return f"GraphQL({self._shown!r})"

    async def ask(self, operation: str, query: str, data: type[T], *, hidden: Sequence[str] = ()) -> T:
        """Sends `query` and returns the answer's `data`, read as `data` says.

        `operation` names it in messages; `hidden` are secrets in the query, which the service may quote. Raises
        `GraphQLError` where it refuses, `ProblemError` where something before it does, `AnswerError` for a success that
        cannot be read, `NotSent` and `Unanswered`.
        """
        body = msgspec.json.encode({"query": query})
        request = httpx.Request("POST", self._url, headers=[*self._headers], content=body)
        answer = await self._transport.send(request)
        secrets = (self._key, *hidden)
        response = _response(answer)
        if response is not None and response.errors:
            raise GraphQLError(operation, [_text(each, secrets) for each in response.errors[:MESSAGES_MAX]], answer)
        if answer.status > _OK_MAX:
            raise _problem(answer, secrets)
        if response is None:
            raise AnswerError(f"{operation}: the service answered {answer.status}, but not with GraphQL; {_PERHAPS}")
        return _data(operation, response, data)


def _response(answer: Answer) -> _Response | None:
    """The body as a GraphQL response, or None: a gateway's HTML page, nothing at all, cut JSON."""
    try:
        return msgspec.json.decode(answer.body, type=_Response)
    except (ValueError, RecursionError):
        return None


def _text(error: _Error, secrets: Sequence[str]) -> str:
    """A message as one line, without what could draw on the user's terminal."""
    if not isinstance(error.message, str):
        return "no reason given"
    text = hide(error.message, *secrets)
    return "".join(c if c.isprintable() else " " for c in text).strip()[:MESSAGE_CHARS_MAX]


def _problem(answer: Answer, secrets: Sequence[str]) -> ProblemError:
    """What is no GraphQL. Hidden before it is read, since texts are cut then, and after: JSON has many spellings."""
    body = hide(answer.body.decode(errors="replace"), *secrets).encode()
    error = problem(msgspec.structs.replace(answer, body=body))
    title, detail, *errors = (hide(text, *secrets) for text in (error.title, error.detail, *error.errors))
    if error.retry_after_s is not None:
        errors.append(f"try again in {error.retry_after_s:g} s")
    return ProblemError(error.status, title, detail, tuple(errors), error.retry_after_s)


def _data(operation: str, response: _Response, data: type[T]) -> T:
    try:
        return msgspec.json.decode(response.data, type=data)
    except (ValueError, RecursionError):
        # `from None`: msgspec says where in the answer, and the answer may hold environment variables.
        raise AnswerError(f"{operation}: the answer lacks what was asked for; {_PERHAPS}") from None


def hide(text: str, *secrets: str) -> str:
    """`text` without the `secrets`: as they are, as they stand in a URL or a JSON string (in a JSON
    string), and each of their lines.
    """
    spellings = {spelling for secret in secrets for spelling in _spellings(secret)}
    for spelling in sorted(spellings, key=len, reverse=True):
        if len(spelling) >= SECRET_CHARS_HIDDEN_MIN:
            text = text.replace(spelling, "[hidden]")
    return text


def _spellings(secret: str) -> Iterable[str]:
    for part in (secret, " ".join(secret.split()), *secret.splitlines()):
        once = literal(part)[1:-1]
        yield from (part, quote(part, safe=""), quote(part), quote_plus(part), once, literal(once)[1:-1])


def literal(value: Value) -> str:
    """`value` as a GraphQL literal. Raises `UsageError` for text that no encoding can carry.

    A string in JSON is a string in GraphQL, and no string can end early: what a user writes stays a value.
    """
    match value:
        case str() | bool() | int() | None:
            return _scalar(value)
        case Mapping():
            return "{" + ", ".join(f"{_name(key)}: {literal(member)}" for key, member in value.items()) + "}"
        case _:
            return "[" + ", ".join(map(literal, value)) + "]"


def _scalar(value: str | bool | int | None) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        raise UsageError("a text has characters that are no Unicode (bytes of another encoding?)") from None


def _name(key: str) -> str:
    if _NAME.fullmatch(key) is None:
        raise ValueError(f"{key!r} is no GraphQL name")
    return key
