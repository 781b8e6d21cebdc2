"""The REST interface (v2): requests that keep the user's limits, and problem documents turned into one error.

Rules:

- Before a window of the rate limit is empty, requests wait; a wait longer than our patience is an error instead, and
  nothing was sent.
- A 429 had no effect, so it is waited out and the request repeated, whatever the method. Only GETs are repeated for
  other reasons: the connection failed, or the service did (5xx).
- Whatever is not a 2xx is a `ProblemError`, with or without a problem document in the body: the status decides.
- The key is in no error and no text of an error.
"""

import math
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final

import anyio
import httpx
import msgspec

from orchestrator.client.serverless import KEY_CHARS_HIDDEN_MIN
from orchestrator.client.transport import Transport
from orchestrator.clock import SECOND, Clock
from orchestrator.core.outcome import HINT_CHARS_MAX, Answer
from orchestrator.core.quotas import Quotas, Window, read_windows
from orchestrator.errors import NotSent, OrchestratorError, Unanswered, UsageError

PATIENCE_S: Final = 120.0
"""The longest wait for a rate limit; a day window may ask for hours, and a person should know that at once."""

PAUSES_S: Final = (1.0, 2.0, 4.0)
"""Before a request is repeated for the first time, the second, ...; also the wait after a 429 that names none."""

_TEAM_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_OK_MAX: Final = 299
_TOO_MANY: Final = 429
_SERVER_ERROR_MIN: Final = 500

_MEANINGS: Final = {
    401: "the service refused the API key",
    402: "the account's balance does not allow it",
    403: "the API key has no permission for this",
    404: "the service does not know it, or it is not this account's",
    409: "not possible in its present state",
    429: "the account's rate limit is used up",
}
"""What a status means to a user whom the service tells nothing."""


class ProblemError(OrchestratorError):
    """The service turned a request down.

    Args:
        status: the HTTP status.
        title: of the problem document, or the name of the status.
        detail: of the problem document, or "".
        errors: the single failures of the validation, often none.
        retry_after_s: what a 429 asked for.
    """

    exit_code = 3

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        errors: tuple[str, ...] = (),
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.title = title
        self.detail = detail
        self.errors = errors
        self.retry_after_s = retry_after_s
        text = detail or _MEANINGS.get(status, "the service gave no reason")
        super().__init__("; ".join((f"{status} {title}: {text}", *errors)))


class AnswerError(OrchestratorError):
    """The service answered a request with success, and with a body that cannot be used."""

    exit_code = 3


def team_header(team_id: str) -> dict[bytes, bytes]:
    """The header with which a signed-in user acts for a team (contract of pods, Authentication 4).

    Raises `UsageError` for what fits in no header.
    """
    if _TEAM_ID.fullmatch(team_id) is None:
        raise UsageError(f"{team_id!r} is no team id: 1-128 letters, digits, '-' and '_'")
    return {b"X-Team-Id": team_id.encode("ascii")}


class _Document(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457) with whatever types its members come in."""

    title: object = None
    detail: object = None
    errors: object = None
    error: object = None
    message: object = None


_document: Final = msgspec.json.Decoder(_Document)


def problem(answer: Answer) -> ProblemError:
    """The error that `answer`, not a 2xx, is. Its body may be a problem document, other JSON, or anything."""
    try:
        document = _document.decode(answer.body)
    except (ValueError, RecursionError):
        document = _Document()
    errors = document.errors if isinstance(document.errors, list) else []
    return ProblemError(
        answer.status,
        _text(document.title) or _phrase(answer.status),
        _text(document.detail) or _text(document.error) or _text(document.message),
        tuple(text for each in errors if (text := _text(each))),
        answer.retry_after_s,
    )


def _text(value: object) -> str:
    """`value` as a line, where it is text: what a server says must not draw on the user's terminal."""
    if not isinstance(value, str):
        return ""
    return "".join(c if c.isprintable() else " " for c in value).strip()[:HINT_CHARS_MAX]


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


class Rest:
    """The REST interface at `base`, `{base_url}`, spoken to by one user.

    `headers` are `request_headers`, and for a team also `team_header`. `notify` is told why a request waits and for how
    many seconds. Calls raise `ProblemError`, `NotSent` and `Unanswered`.
    """

    def __init__(
        self,
        base: httpx.URL,
        headers: Mapping[bytes, bytes],
        transport: Transport,
        clock: Clock,
        *,
        notify: Callable[[str, float], None] | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._base = str(base)
        self._headers = dict(headers)
        self._key = self._headers.get(b"Authorization", b"").removeprefix(b"Bearer ")
        self._transport = transport
        self._clock = clock
        self._quotas = Quotas()
        self._patience_s = patience_s
        self.notify = notify
        """Told why a request waits, and for how many seconds; may be set at any time."""

    def __repr__(self) -> str:
        return f"Rest({self._base!r})"

    @property
    def windows(self) -> tuple[Window, ...]:
        """The windows of the user's rate limit as last told; empty before the first answer, and for exempt callers."""
        return self._quotas.windows

    async def get(self, path: str) -> Answer:
        """`GET {base}{path}`; repeated while the connection or the service fails."""
        return await self._request("GET", path, None)

    async def post(self, path: str, body: bytes) -> Answer:
        """`POST {base}{path}` with a JSON body."""
        return await self._request("POST", path, body)

    async def patch(self, path: str, body: bytes) -> Answer:
        """`PATCH {base}{path}` with a JSON body."""
        return await self._request("PATCH", path, body)

    async def delete(self, path: str) -> Answer:
        """`DELETE {base}{path}`."""
        return await self._request("DELETE", path, None)

    async def _request(self, method: str, path: str, body: bytes | None) -> Answer:
        for pause_s in PAUSES_S:
            await self._wait()
            try:
                return await self._send(method, path, body)
            except ProblemError as error:
                if error.status == _TOO_MANY:
                    self._hold(pause_s if error.retry_after_s is None else error.retry_after_s)
                    continue  # the next request waits for it
                if method != "GET" or error.status < _SERVER_ERROR_MIN:
                    raise
            except (NotSent, Unanswered):
                if method != "GET":
                    raise
            await anyio.sleep(pause_s)
        await self._wait()
        return await self._send(method, path, body)

    async def _send(self, method: str, path: str, body: bytes | None) -> Answer:
        """The answer, a 2xx. Raises `ProblemError` for every other."""
        headers = {**self._headers, **({} if body is None else {b"Content-Type": b"application/json"})}
        request = httpx.Request(method, f"{self._base}{path}", headers=headers, content=body)
        self._quotas.take()
        try:
            answer = await self._transport.send(request)
        finally:
            self._quotas.ended()
        limit, policy = answer.headers.get("ratelimit"), answer.headers.get("ratelimit-policy")
        self._quotas.told(read_windows(limit, policy, answer.answered_at))
        if answer.status > _OK_MAX:
            raise problem(self._without_key(answer))
        return answer

    async def _wait(self) -> None:
        """Until a request may leave. Raises `NotSent` where that is too long."""
        told = False
        while True:
            wait_us, reason = self._quotas.wait(self._clock.now())
            if not wait_us:
                return
            wait_s = wait_us / SECOND
            if wait_s > self._patience_s:
                raise NotSent(f"{reason}, and it takes {math.ceil(wait_s)} s until it is free again; nothing was sent")
            if self.notify and not told:
                self.notify(reason, wait_s)
                told = True
            await anyio.sleep(wait_s)

    def _hold(self, wait_s: float) -> None:
        self._quotas.refused(self._clock.now() + round(wait_s * SECOND))

    def _without_key(self, answer: Answer) -> Answer:
        """What a service says about a request may repeat the request, and is shown."""
        if len(self._key) < KEY_CHARS_HIDDEN_MIN or self._key not in answer.body:
            return answer
        return msgspec.structs.replace(answer, body=answer.body.replace(self._key, b"[the API key]"))
