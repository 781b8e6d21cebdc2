"""The REST interface (v2): requests that keep the user's limits, and problem documents turned into one error.

Rules:

- Before a window of the rate limit is empty, requests wait; a wait longer than our patience is an error instead, and
  nothing was sent.
- A 429 had no effect, so it is waited out and the request repeated, whatever the method. Only GETs are repeated for
  other reasons: the connection failed, or the service did (5xx).
- Whatever is not a 2xx is a `ProblemError`, with or without a problem document in the body: the status decides.
- Every error begins with what was asked for (`doing`), and the key is in none.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

import anyio
import httpx
import msgspec

from orchestrator.account.transport.fallback import RETIRED_STATUSES
from orchestrator.account.transport.quotas import RateQuota
from orchestrator.client.http.backends import OK_MAX, Coming, Request, header_table
from orchestrator.client.http.transport import Transport
from orchestrator.client.jobs.refusals import (
    PROBABLE,
    UNKNOWN,
    AnswerError,
    Refusal,
    RefusedError,
    errors_about,
    one_line,
    read_refusal,
)
from orchestrator.client.jobs.retries import Sleep
from orchestrator.client.jobs.serverless import checked_id, key_of
from orchestrator.clock import Clock
from orchestrator.core.limits.ratelimit_headers import Window, read_windows
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.core.service.answers import Answer
from orchestrator.core.text.redaction import HIDDEN, Redactor
from orchestrator.errors import NotSent, Unanswered, UsageError
from orchestrator.units import SECOND_US

PATIENCE_S: Final = 120.0
"""The longest wait for a rate limit; a day window may ask for hours, and a person should know that at once."""

PAUSES_S: Final = (1.0, 2.0, 4.0)
"""Before a request is repeated for the first time, the second, ...; also the wait after a 429 that names none."""

PAGE_MAX: Final = 1000
"""The most that a page of a list may hold."""

_TOO_MANY: Final = 429

T = TypeVar("T")

read_object: Final = msgspec.json.Decoder(dict[str, Any]).decode
"""A JSON object as it is. Raises `ValueError`."""


class ProblemError(RefusedError):
    """The REST interface turned a request down, with or without a problem document."""


def team_header(team_id: str) -> dict[bytes, bytes]:
    """The header with which a signed-in user acts for a team (contract of pods, Authentication 4).

    Raises `UsageError` for what fits in no header.
    """
    return {b"X-Team-Id": checked_id(team_id, "team").encode("ascii")}


def encode_body(body: object) -> bytes:
    """A body as JSON. Raises `UsageError` for text that no encoding can carry."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        raise UsageError("a text has characters that are no Unicode (bytes of another encoding?)") from None


def not_listed_error(doing: str, what: str) -> ProblemError:
    """What is said of a thing that is not among those that the service has listed."""
    return ProblemError(doing, Refusal(status=404, title="Not Found", detail=what))


def decode_answer(doing: str, answer: Answer, decode: Callable[[bytes], T], *, changed: bool = False) -> T:
    """The body of `answer`, a success, as `decode` reads it. Raises `AnswerError`; `changed`: that it had an effect."""
    try:
        return decode(answer.body)
    except (ValueError, RecursionError) as error:
        text = f"{doing}: the service answered {answer.status} with a body that cannot be read: {one_line(str(error))}"
    raise AnswerError(f"{text}; {PROBABLE}" if changed else text)


class Rest:
    """The REST interface at `base`, `{base_url}`, spoken to by one user.

    `headers` are `request_headers`, and for a team also `team_header`. `sleep` waits before a question is asked
    again. Calls raise `ProblemError`, `NotSent` and `Unanswered`.
    """

    def __init__(
        self,
        base: httpx.URL,
        headers: Mapping[bytes, bytes],
        transport: Transport,
        clock: Clock,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        self._base = str(base)
        self._headers = dict(headers)
        self._key = key_of(self._headers)
        self._transport = transport
        self._clock = clock
        self.sleep = sleep
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

    async def get(self, doing: str, path: str) -> Answer:
        """`GET {base}{path}`; repeated while the connection or the service fails. `doing` begins every error."""
        return await self._request(doing, "GET", path, None)

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
            answer = await self.get(doing, f"{path}?{urlencode(query)}" if query else path)
            page = decode_answer(doing, answer, lambda body: _page(body, name, read))
            found += page.items
            if page.cursor is None or (limit is not None and len(found) >= limit):
                return found[:limit]
            if page.cursor in cursors:
                raise AnswerError(f"{doing}: the service answered with a cursor that it has given before")
            cursors.add(page.cursor)
            query["cursor"] = page.cursor

    async def has(self, path: str, *, in_pages: bool = True) -> bool:
        """Whether there is a list at `path`, whatever it says."""
        try:
            await self.get(f"GET {path}", f"{path}?limit=1" if in_pages else path)
        except ProblemError as error:
            return error.status not in RETIRED_STATUSES
        except (NotSent, Unanswered):
            return True
        return True

    async def post(self, doing: str, path: str, body: bytes, *, hidden: Sequence[str] = ()) -> Answer:
        """`POST {base}{path}` with a JSON body; `hidden` are secrets in it, which the service may quote."""
        return await self._request(doing, "POST", path, body, hidden)

    async def patch(self, doing: str, path: str, body: bytes, *, hidden: Sequence[str] = ()) -> Answer:
        """`PATCH {base}{path}` with a JSON body; `hidden` as for `post`."""
        return await self._request(doing, "PATCH", path, body, hidden)

    async def delete(self, doing: str, path: str) -> Answer:
        """`DELETE {base}{path}`."""
        return await self._request(doing, "DELETE", path, None)

    async def listen(self, doing: str, path: str, coming: Coming, *, silence_s: float, last_id: str = "") -> None:
        """`GET {base}{path}`, whose answer is events and has no end of its own: `coming` has it piece by piece.

        Returns when the service ends it, raises `Unanswered` where it is cut or `silence_s` long nothing comes, and is
        not repeated: `last_id` is the last event of the stream before this one.
        """
        more = {b"Accept": b"text/event-stream", **({b"Last-Event-ID": last_id.encode("ascii")} if last_id else {})}
        headers = header_table({**self._headers, **more})
        request = Request("GET", str(httpx.URL(f"{self._base}{path}")), headers, coming=coming, is_endless=True)
        with errors_about(doing):
            await self._wait()
            try:
                answer = _success(await self._exchange(request, silence_s), doing, "", self._redactor)
            except ProblemError as error:
                self._may_repeat("GET", error, PAUSES_S[0])  # after a 429, whatever comes next waits
                raise
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            raise AnswerError(
                f"{doing}: the service answered {answer.status} with something else than a stream of events"
            )

    def scrub(self, text: bytes) -> bytes:
        """What the service says, without the key."""
        return self._redactor.scrub(text)

    async def _request(
        self, doing: str, method: str, path: str, body: bytes | None, hidden: Sequence[str] = ()
    ) -> Answer:
        redactor = Redactor({HIDDEN: self._key}, sent=hidden)
        consequence = "" if method == "GET" else UNKNOWN
        pauses_s = iter(PAUSES_S)
        with errors_about(doing, consequence):
            while True:
                await self._wait()
                pause_s = next(pauses_s, None)
                try:
                    return _success(await self._send(method, path, body), doing, consequence, redactor)
                except ProblemError as error:
                    if pause_s is None or not self._may_repeat(method, error, pause_s):
                        raise
                    if error.status == _TOO_MANY:
                        continue  # the next request waits for it
                except (NotSent, Unanswered):
                    if pause_s is None or method != "GET":
                        raise
                await self.sleep(pause_s)

    def _may_repeat(self, method: str, error: ProblemError, pause_s: float) -> bool:
        """Whether another try may help and does no harm; a 429 makes it wait."""
        if error.status != _TOO_MANY:
            return method == "GET" and error.passing
        hold_s = pause_s if error.retry_after_s is None else error.retry_after_s
        self._quotas.refused(self._clock.now() + round(hold_s * SECOND_US))
        return hold_s <= PATIENCE_S

    async def _send(self, method: str, path: str, body: bytes | None) -> Answer:
        headers = {**self._headers, **({} if body is None else {b"Content-Type": b"application/json"})}
        return await self._exchange(
            Request(method, str(httpx.URL(f"{self._base}{path}")), header_table(headers), body or b"")
        )

    async def _exchange(self, request: Request, within_s: float | None = None) -> Answer:
        self._quotas.take()
        try:
            answer = await self._transport.send(request, within_s=within_s)
        finally:
            self._quotas.ended()
        limit, policy = answer.headers.get("ratelimit"), answer.headers.get("ratelimit-policy")
        self._quotas.observe(read_windows(limit, policy, answer.answered_at))
        return answer

    async def _wait(self) -> None:
        """Until a request may leave. Raises `NotSent` where that is too long."""
        is_notified = False
        while True:
            wait_us, reason = self._quotas.wait(self._clock.now())
            if not wait_us:
                return
            wait_s = wait_us / SECOND_US
            if wait_s > PATIENCE_S:
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

    async def is_there(self) -> bool:
        """Whether the service has this interface at all."""
        return await self._rest.has(self.path, in_pages=self.in_pages)


def _success(answer: Answer, doing: str, caution: str, redactor: Redactor) -> Answer:
    if answer.status > OK_MAX:
        raise ProblemError(doing, read_refusal(answer, redactor), caution=caution)
    return answer


class _Page(NamedTuple, Generic[T]):
    items: list[T]
    cursor: str | None


class _Pagination(msgspec.Struct, frozen=True, rename="camel"):
    has_next_page: bool | None = None
    next_cursor: str | None = None


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])
_pagination: Final = msgspec.json.Decoder(_Pagination | None)


def _page(body: bytes, name: str, read: Callable[[bytes], T]) -> _Page[T]:
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
