"""The GraphQL interface: one address, one POST for everything (contract, templates and secrets).

The rules:

- The body has one property, `query` (contract, Endpoints). Values stand in it as literals, so nothing else is needed.
- The API key goes in the query parameter `api_key` (contract, Authentication 1), or in a bearer header by setting. It
  stands in no message, log or `repr`; neither does what the caller asks to hide.
- Errors in an answer with status 200 are errors. Queries are repeated while that may help, mutations never: one whose
  answer was lost may have happened.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from orchestrator.client.http.backends import OK_MAX, Headers, Request
from orchestrator.client.jobs.refusals import UNKNOWN, AnswerError, Refusal, RefusedError, errors_about, read_refusal
from orchestrator.client.jobs.retries import repeated
from orchestrator.client.jobs.serverless import service_url
from orchestrator.client.jobs.service import Service
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.job_record import read_members
from orchestrator.core.text.redaction import HIDDEN, Redactor
from orchestrator.errors import UsageError
from orchestrator.settings.words_and_defaults import KeyPlace

T = TypeVar("T")


class EnumWord(str):
    """A word of the schema's own, written without quotes."""

    __slots__ = ()


Value = str | int | float | bool | None | Sequence["Value"] | Mapping[str, "Value"]
"""What a GraphQL literal can say."""

_UNKNOWN_FIELD: Final = re.compile(r"Cannot query field .(\w+)")

_ELSEWHERE: Final = dict.fromkeys((404, 405), ("there is no GraphQL at this address", "check the GraphQL URL"))
_NO_REASON: Final = "no reason given"
_NAME: Final = re.compile(r"[_A-Za-z][_0-9A-Za-z]*")


class GraphQLError(RefusedError):
    """The GraphQL interface turned an operation down: `errors` are its messages, and `status` is 200 as a rule."""


class _Response(msgspec.Struct, frozen=True):
    data: msgspec.Raw = msgspec.Raw(b"null")
    errors: Sequence[object] | None = None


class GraphQL:
    """The service's GraphQL address, `url`; `service` has the key, and the connections."""

    def __init__(self, service: Service, url: str, *, key_place: KeyPlace = "query") -> None:
        """Raises `UsageError` for a URL that cannot be used."""
        self._url = service_url(url)
        self._shown = str(self._url)
        self._transport = service.transport_to(self._url)
        self._sleep = service.sleep
        headers = {**service.headers, "Content-Type": "application/json"}
        if key_place == "query":
            del headers["Authorization"]
            self._url = self._url.copy_set_param("api_key", service.api_key)
        self._headers = Headers(headers)
        self._redactor = partial(Redactor, {HIDDEN: service.api_key})

    def __repr__(self) -> str:
        return f"GraphQL({self._shown!r})"

    async def ask(self, doing: str, query: str, read: Callable[[bytes], T], *, hidden: Sequence[str] = ()) -> T:
        """Sends `query`, a query or a mutation, and returns what `read` makes of the answer's `data`.

        `doing` begins every error; `hidden` are secrets in the query, which the service may quote. Raises
        `GraphQLError` where it is refused, `AnswerError` for a success that cannot be read, `NotSent` and `Unanswered`.
        """
        if query.startswith("mutation"):
            return await self._ask(doing, query, read, hidden, consequence=UNKNOWN)
        return await repeated(partial(self._ask, doing, query, read, hidden, consequence=""), self._sleep)

    async def change(
        self,
        doing: str,
        mutation: str,
        wanted: Mapping[str, "Value"],
        fields: str,
        read: Callable[[bytes], T],
        *,
        hidden: Sequence[str] = (),
    ) -> T:
        """Sends `mutation` with the input `wanted`, and returns what `read` makes of the selected `fields`."""
        query = f"mutation {{ {mutation}(input: {literal(wanted)}) {{ {fields} }} }}"
        return await self.ask(doing, query, partial(read_at, (mutation,), read), hidden=hidden)

    async def ask_known(
        self, doing: str, head: str, more: Sequence[str], read: Callable[[bytes], T]
    ) -> tuple[T, tuple[str, ...]]:
        """The same for a query whose `%s` is the place of the fields `more`; those that the service turns out not to
        have are left out, and returned beside the answer.
        """
        asked = list(more)
        missing: list[str] = []
        while True:
            try:
                return await self.ask(doing, head % " ".join(asked), read), tuple(missing)
            except GraphQLError as error:
                named = {found[1] for text in error.errors for found in _UNKNOWN_FIELD.finditer(text)}
                if not named.intersection(asked):
                    raise
                missing += [name for name in asked if name in named]
                asked = [name for name in asked if name not in named]

    async def _ask(
        self, doing: str, query: str, read: Callable[[bytes], T], hidden: Sequence[str], *, consequence: str
    ) -> T:
        body = msgspec.json.encode({"query": query})
        request = Request("POST", str(self._url), self._headers, body)
        with errors_about(doing, consequence):
            answer = await self._transport.send(request)
        response = _response(answer)
        if answer.status > OK_MAX or (response is not None and response.errors):
            refusal = _refusal(answer, self._redactor(sent=hidden))
            raise GraphQLError(doing, refusal, _ELSEWHERE.get(answer.status), caution=consequence)
        problem = f"the service answered {answer.status}, but not with GraphQL"
        if response is not None:
            try:
                return read(bytes(response.data))
            except (ValueError, RecursionError):  # its text may quote environment variables
                problem = "the answer lacks what was asked for"
        raise AnswerError("; ".join(filter(None, (f"{doing}: {problem}", consequence))))


class ByGraphQL:
    """What a noun's form is by GraphQL, whichever the noun."""

    interface: Interface = Interface.GRAPHQL

    def __init__(self, graphql: GraphQL) -> None:
        self._graphql = graphql

    def __repr__(self) -> str:
        return repr(self._graphql)

    async def probe(self) -> None:
        """Asks for nothing."""
        await self._graphql.ask("query", "query { __typename }", read_members)


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def read_at(place: Sequence[str], read: Callable[[bytes], T], data: bytes) -> T:
    """What `read` makes of what stands in `data` at `place`. Raises `ValueError`."""
    for name in place:
        try:
            data = bytes(_members.decode(data)[name])
        except KeyError:
            raise ValueError(f"there is no {name}") from None
    return read(data)


def _response(answer: Answer) -> _Response | None:
    """The body as a GraphQL response, or None: a gateway's HTML page, nothing at all, cut JSON."""
    try:
        return msgspec.json.decode(answer.body, type=_Response)
    except (ValueError, RecursionError):
        return None


def _refusal(answer: Answer, redactor: Redactor) -> Refusal:
    refusal = read_refusal(answer, redactor)
    if answer.status > OK_MAX or refusal.errors:
        return refusal
    return msgspec.structs.replace(refusal, errors=(_NO_REASON,))


def literal(value: Value) -> str:
    """`value` as a GraphQL literal. Raises `UsageError` for text that no encoding can carry.

    A string in JSON is a string in GraphQL, and no string can end early: what a user writes stays a value.
    """
    match value:
        case EnumWord():
            return _name(value)
        case str() | bool() | int() | float() | None:
            return _scalar(value)
        case Mapping():
            return "{" + ", ".join(f"{_name(key)}: {literal(member)}" for key, member in value.items()) + "}"
        case _:
            return "[" + ", ".join(map(literal, value)) + "]"


def _scalar(value: str | bool | float | None) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        raise UsageError("a text has characters that are no Unicode (bytes of another encoding?)") from None


def _name(key: str) -> str:
    if _NAME.fullmatch(key) is None:
        raise ValueError(f"{key!r} is no GraphQL name")
    return key
