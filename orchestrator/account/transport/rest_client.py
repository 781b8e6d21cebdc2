"""The REST interface (v2): requests that keep the user's rate limits and wait out a 429, and problem documents turned
into one error.

Rules:

- Before a window of the rate limit is empty, requests wait; a wait longer than our patience is an error instead, and
  nothing was sent.
- A 429 had no effect, so it is waited out and the request repeated, whatever the method. Only GETs are repeated for
  other reasons: the connection failed, or the service did (5xx). `client.jobs.retries` repeats them.
- Whatever is not a 2xx is a `ProblemError`, with or without a problem document in the body: the status decides.
- Every error begins with what was asked for (`doing`), and the key is in none.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import anyio
import httpx
import msgspec

from orchestrator.account.transport.quotas import RateQuota
from orchestrator.client.http.backends import OK_MAX, Coming, Headers, Request
from orchestrator.client.jobs.refusals import (
    PROBABLE,
    UNKNOWN,
    AnswerError,
    RefusedError,
    errors_about,
    one_line,
    read_refusal,
)
from orchestrator.client.jobs.retries import REPEAT_S_MIN, may_pass, repeated
from orchestrator.client.jobs.serverless import checked_id, service_url
from orchestrator.client.jobs.service import Service
from orchestrator.core.limits.ratelimit_headers import Window, read_windows
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.text.redaction import HIDDEN, Redactor
from orchestrator.errors import NotSent, UsageError
from orchestrator.units import SECOND_US

PATIENCE_US: Final = 120 * SECOND_US
"""The longest wait for a rate limit; a day window may ask for hours, and a person should know that at once."""

PAGE_MAX: Final = 1000
"""The most that a page of a list may hold."""

_TOO_MANY: Final = 429

T = TypeVar("T")

Hidden = Sequence[str]


class ProblemError(RefusedError):
    """The REST interface turned a request down, with or without a problem document."""


def encode_body(body: object) -> bytes:
    """A body as JSON. Raises `UsageError` for text that no encoding can carry."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise UsageError("a text has characters that are no Unicode (bytes of another encoding?)") from None


class Rest:
    """The REST interface at `base`, `{base_url}`, spoken to by one user.

    `service` has the key, and the connections; `team_id` is a team to act for. Calls raise `ProblemError`,
    `AnswerError`, `NotSent` and `Unanswered`.
    """

    def __init__(self, service: Service, base: str, team_id: str | None = None) -> None:
        """Raises `UsageError` for a URL or a team that cannot be used."""
        url = service_url(base)
        self._base = str(url)
        self._headers = dict(service.headers)
        if team_id:  # a signed-in user acts for a team (contract of pods, Authentication 4)
            self._headers["X-Team-Id"] = checked_id(team_id, "team")
        self._key = service.api_key
        self._transport = service.transport_to(url)
        self._clock = service.clock
        self.sleep = service.sleep
        """Waits before something is asked again."""

        self._redactor = Redactor({HIDDEN: self._key})
        self._quotas = RateQuota()
        self.notify: Callable[[str, float], None] | None = None
        """Told why a request waits, and for how many seconds; may be set at any time."""

    def __repr__(self) -> str:
        return f"Rest({self._base!r})"

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of the user's rate limit as last told; empty before the first answer, and for exempt callers."""
        return self._quotas.windows

    async def get(self, doing: str, path: str, read: Callable[[bytes], T]) -> T:
        """`GET {base}{path}`, as `read` reads the answer; repeated while the connection or the service fails.

        `doing` begins every error. Raises `AnswerError` for a success that cannot be read.
        """
        return await self._request(doing, "GET", path, read)

    async def post(self, doing: str, path: str, body: object, read: Callable[[bytes], T], *, hidden: Hidden = ()) -> T:
        """`POST {base}{path}` with `body` as JSON; `hidden` are secrets in it, which the service may quote."""
        return await self._request(doing, "POST", path, read, encode_body(body), hidden)

    async def patch(self, doing: str, path: str, body: object, read: Callable[[bytes], T], *, hidden: Hidden = ()) -> T:
        """`PATCH {base}{path}`, as `post`."""
        return await self._request(doing, "PATCH", path, read, encode_body(body), hidden)

    async def delete(self, doing: str, path: str) -> None:
        """`DELETE {base}{path}`."""
        await self._request(doing, "DELETE", path, bytes)

    async def all(
        self,
        doing: str,
        path: str,
        name: str,
        read: Callable[[bytes], T],
        *,
        limit: int | None = None,
        in_pages: bool = True,
        query: Mapping[str, str] | None = None,
    ) -> list[T]:
        """What the list at `path` holds under `name`, page by page, each as `read` reads it; at most the first `limit`.

        One that is not `in_pages` is asked for as a whole; what comes is read all the same. A bare list is one page.
        Raises `AnswerError`, also for pages that cannot be followed.
        """
        found: list[T] = []
        if limit is not None and limit < 1:
            return found
        query = dict(query or {})
        cursors: set[str] = set()
        while True:
            if limit is not None and in_pages:
                query["limit"] = str(min(limit - len(found), PAGE_MAX))
            page = await self.get(doing, f"{path}?{urlencode(query)}" if query else path, partial(_page, name, read))
            found += page.items
            if page.cursor is None or (limit is not None and len(found) >= limit):
                return found[:limit]
            if page.cursor in cursors:
                raise AnswerError(f"{doing}: the service answered with a cursor that it has given before")
            cursors.add(page.cursor)
            query["cursor"] = page.cursor

    async def listen(self, doing: str, path: str, coming: Coming, *, silence_s: float, last_id: str = "") -> None:
        """`GET {base}{path}`, whose answer is events and has no end of its own: `coming` has it piece by piece.

        Returns when the service ends it, raises `Unanswered` where it is cut or `silence_s` long nothing comes, and is
        not repeated: `last_id` is the last event of the stream before this one.
        """
        more = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        headers = Headers({**self._headers, **more})
        request = Request("GET", str(httpx.URL(f"{self._base}{path}")), headers, coming=coming, is_endless=True)
        with errors_about(doing):
            answer = await self._exchange(request, silence_s)
        _check(answer, doing, "", self._redactor)
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            raise AnswerError(
                f"{doing}: the service answered {answer.status} with something else than a stream of events"
            )

    def scrub(self, text: bytes) -> bytes:
        """What the service says, without the key."""
        return self._redactor.scrub(text)

    async def _request(
        self,
        doing: str,
        method: str,
        path: str,
        read: Callable[[bytes], T],
        body: bytes | None = None,
        hidden: Hidden = (),
    ) -> T:
        redactor = Redactor({HIDDEN: self._key}, sent=hidden)
        consequence = "" if method == "GET" else UNKNOWN
        headers = self._headers if body is None else {**self._headers, "Content-Type": "application/json"}
        request = Request(method, str(httpx.URL(f"{self._base}{path}")), Headers(headers), body or b"")

        async def ask() -> Answer:
            with errors_about(doing, consequence):
                answer = await self._exchange(request)
            _check(answer, doing, consequence, redactor)
            return answer

        def may_help(error: BaseException) -> bool:
            if self._quotas.wait(self._clock.now())[0] > PATIENCE_US:
                return False
            is_throttled = isinstance(error, ProblemError) and error.status == _TOO_MANY
            return is_throttled or (method == "GET" and may_pass(error))

        answer = await repeated(ask, self._pause, may_help=may_help)
        try:
            return read(answer.body)
        except (ValueError, RecursionError) as error:
            problem = f"{answer.status} with a body that cannot be read: {one_line(str(error))}"
        raise AnswerError(
            "; ".join(filter(None, (f"{doing}: the service answered {problem}", consequence and PROBABLE)))
        )

    async def _pause(self, seconds: float) -> None:
        """Before a request is repeated. For a limit the request itself waits, and says so."""
        now = self._clock.now()
        if self._quotas.wait(now)[0]:
            self._quotas.refused(now + round(seconds * SECOND_US))
        else:
            await self.sleep(seconds)

    async def _exchange(self, request: Request, within_s: float | None = None) -> Answer:
        await self._wait()
        self._quotas.take()
        try:
            answer = await self._transport.send(request, within_s=within_s)
        finally:
            self._quotas.ended()
        limit, policy = answer.headers.get("ratelimit"), answer.headers.get("ratelimit-policy")
        self._quotas.observe(read_windows(limit, policy, answer.answered_at))
        if answer.status == _TOO_MANY:  # whatever comes next waits
            hold_s = REPEAT_S_MIN if answer.retry_after_s is None else answer.retry_after_s
            self._quotas.refused(self._clock.now() + round(hold_s * SECOND_US))
        return answer

    async def _wait(self) -> None:
        """Until a request may leave. Raises `NotSent` where that is too long."""
        is_notified = False
        while True:
            wait_us, reason = self._quotas.wait(self._clock.now())
            if not wait_us:
                return
            wait_s = wait_us / SECOND_US
            if wait_us > PATIENCE_US:
                raise NotSent(f"{reason}, and it takes {math.ceil(wait_s)} s until it is free again")
            if self.notify and not is_notified:
                self.notify(reason, wait_s)
                is_notified = True
            await anyio.sleep(wait_s)


class ByRest:
    """What a noun's form is by one version of REST, whichever the noun: the collection at `path`."""

    interface: Interface
    path: str
    in_pages = True
    """Whether lists of it come in pages."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def __repr__(self) -> str:
        return f"{self.interface} {self._rest!r}"

    async def _all(self, doing: str, name: str, read: Callable[[bytes], T], limit: int | None) -> list[T]:
        return await self._rest.all(doing, self.path, name, read, limit=limit, in_pages=self.in_pages)

    async def probe(self) -> None:
        """Asks for the collection, whatever it says."""
        await self._rest.get(f"GET {self.path}", f"{self.path}?limit=1" if self.in_pages else self.path, bytes)


def _check(answer: Answer, doing: str, caution: str, redactor: Redactor) -> None:
    if answer.status > OK_MAX:
        raise ProblemError(doing, read_refusal(answer, redactor), caution=caution)


class _Page(NamedTuple, Generic[T]):
    items: list[T]
    cursor: str | None


class _Pagination(msgspec.Struct, frozen=True, rename="camel"):
    has_next_page: bool | None = None
    next_cursor: str | None = None


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_pagination: Final = msgspec.json.Decoder(_Pagination | None)


def _page(name: str, read: Callable[[bytes], T], body: bytes) -> _Page[T]:
    """One page of a list. Raises ValueError."""
    members = {name: msgspec.Raw(body)} if body.lstrip().startswith(b"[") else _members.decode(body)
    if name not in members:
        raise ValueError(f"there are no {name} in it")
    items = [read(bytes(item)) for item in _items.decode(members[name])]
    pagination = _pagination.decode(members.get("pagination", b"null"))
    if pagination is None or pagination.has_next_page is False:
        return _Page(items, None)
    if pagination.has_next_page and not pagination.next_cursor:
        raise ValueError("it says that there is a next page, and not where")
    return _Page(items, pagination.next_cursor or None)
