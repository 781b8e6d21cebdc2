"""What a service that said no means (401, 402, 403, 404, 429 ...), and what its user can do (contract, Errors).

The status decides; a body is tolerated in every form (a problem document, other JSON, plain text, a gateway's page,
nothing), and only adds words.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import msgspec

from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.http_answers import HINT_CHARS_MAX, Answer
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.redaction import Redactor
from orchestrator.core.text.wording import shortened
from orchestrator.errors import NotSent, OrchestratorError, Unanswered, bare

Words = tuple[str, str]
"""What a refusal means, and what to do about it."""

ERRORS_MAX: Final = 10
ERROR_CHARS_MAX: Final = 500
"""How many of the single failures that a service lists are kept, and how much of each."""

DEPTH_MAX: Final = 3
"""How deep in an error body a text is looked for."""

UNKNOWN: Final = "whether it happened is unknown, look before you repeat it"
"""What it means for a change that no usable answer came."""

PROBABLE: Final = "it has probably happened, look before you repeat it"
"""What it means for a change that the answer says success and cannot be read."""

_MEANINGS: Final[Mapping[int, Words]] = {
    400: ("the service takes the request for malformed", "check what was given"),
    401: (
        "the service refused the API key",
        "check ORCHESTRATOR_API_KEY, or the profile's variable: the key is wrong or lacks permission",
    ),
    402: ("the account's balance does not allow it", "add to the balance and repeat the command"),
    403: ("the API key has no permission for this", "use a key that has"),
    404: ("the service does not know it, or it is not this account's", "check the id and the service URL"),
    405: ("this address takes no such requests", "check the service URL"),
    407: ("the proxy wants authentication", "put it into HTTPS_PROXY"),
    409: ("it is not possible in the present state", "look at it first"),
    410: ("it is gone", "check the id"),
    413: ("the request is too large", "put large data into storage and send its URL"),
    422: ("the service cannot work with the request", "check what was given"),
    429: ("too many requests", "wait a little and repeat it"),
}
_NO_REASON: Final = ("the service refused it", "")
_SERVER: Final = ("the service failed", "repeat it a little later")
_OTHER: Final = ("the service gave no success", "check the service URL")

_TOO_MANY: Final = 429
_NOT_IMPLEMENTED: Final = 501
_PASSING: Final = frozenset({408, 425, _TOO_MANY})
_REDIRECT_MIN: Final = 300
_SERVER_ERROR_MIN: Final = 500
_MARKUP: Final = re.compile(r"\s*<")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What a service said that turned a request down, safe to be shown: texts are single lines.

    `title` and `detail` are those of a problem document; elsewhere the name of the status and what the body says, ""
    for nothing that can be read. `errors` are the single failures that it lists, often none.
    """

    status: int
    title: str
    detail: str = ""
    errors: tuple[str, ...] = ()
    retry_after_s: float | None = None

    @property
    def quoted(self) -> str:
        """All of it in one line; without the status where that says success (GraphQL)."""
        first = f"{self.status} {self.title}: {self.detail}" if self.detail else f"{self.status} {self.title}"
        return "; ".join((first, *self.errors) if self.status >= _REDIRECT_MIN else self.errors)


class RefusedError(OrchestratorError):
    """The service turned a request down.

    What a catcher can do: where `passing`, the same request may succeed a little later (after `retry_after_s`, if the
    service said so); else something has to change first, and `advice` tells a person what. A request that was turned
    down had no effect, unless `status` is 500 or more.

    Args:
        doing: what was asked for; the message begins with it.
        refusal: its members are also the error's: `status`, `title`, `detail`, `errors`, `retry_after_s`.
        words: what this means and what to do, where one knows better than the status.
        caution: what to know where the service failed, and the request may have had its effect before.
    """

    exit_code = 3

    def __init__(self, doing: str, refusal: Refusal, words: Words | None = None, *, caution: str = "") -> None:
        meaning, advice = words or _words(refusal.status)
        if refusal.retry_after_s is not None:
            advice = f"the service asks to wait for {refusal.retry_after_s:g} s"
        if refusal.status >= _SERVER_ERROR_MIN:
            advice = "; ".join(filter(None, (advice, caution)))
        self.doing = doing
        self.refusal = refusal
        self.status = refusal.status
        self.title = refusal.title
        self.detail = refusal.detail
        self.errors = refusal.errors
        self.retry_after_s = refusal.retry_after_s
        self.advice = advice
        is_told = advice.casefold() in refusal.quoted.casefold()  # the service has said so itself
        super().__init__(f"{doing}: {meaning} ({refusal.quoted}){'' if is_told else f'; {advice}'}")

    @property
    def passing(self) -> bool:
        """Whether waiting may help: too many requests, or the service itself failed."""
        return self.status in _PASSING or (self.status >= _SERVER_ERROR_MIN and self.status != _NOT_IMPLEMENTED)

    @property
    def had_no_effect(self) -> bool:
        """Whether nothing was done: of a service that failed nobody knows."""
        return self.status < _SERVER_ERROR_MIN


class AnswerError(OrchestratorError):
    """The service answered a request with success, and with a body that cannot be used."""

    exit_code = 3


def _words(status: int) -> Words:
    if status < _REDIRECT_MIN:
        return _NO_REASON
    return _MEANINGS.get(status, _SERVER if status >= _SERVER_ERROR_MIN else _OTHER)


@contextmanager
def errors_about(doing: str, consequence: str = "") -> Iterator[None]:
    """A `NotSent` or `Unanswered` from inside begins with `doing`, and says what it means (`consequence`)."""
    try:
        yield
    except NotSent as trouble:
        raise NotSent(f"{doing}: {bare(trouble)}; nothing was sent") from None
    except Unanswered as trouble:
        raise Unanswered("; ".join(filter(None, (f"{doing}: {bare(trouble)}", consequence)))) from None


class _Document(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457), or whatever other error bodies hold, in whatever types."""

    title: object = None
    detail: object = None
    errors: object = None
    error: object = None
    message: object = None


def read_refusal(answer: Answer, redactor: Redactor) -> Refusal:
    """What `answer`, no success, says; without the secrets that `redactor` knows."""
    document = _document(answer.body)
    errors = document.errors if isinstance(document.errors, list) else []
    texts = (_line(each, redactor, ERROR_CHARS_MAX) for each in errors[:ERRORS_MAX])
    details = (_line(value, redactor) for value in (document.detail, document.error, document.message))
    return Refusal(
        status=answer.status,
        title=_line(document.title, redactor) or _phrase(answer.status),
        detail=next(filter(None, details), ""),
        errors=tuple(filter(None, texts)),
        retry_after_s=answer.retry_after_s,
    )


def _document(body: bytes) -> _Document:
    try:
        value: object = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
        return _Document(detail="" if _MARKUP.match(text) else text)
    return msgspec.convert(value, _Document) if isinstance(value, dict) else _Document(detail=value)


def _line(value: object, redactor: Redactor, chars_max: int = HINT_CHARS_MAX) -> str:
    return one_line(redactor.text(_text(value)), chars_max)


def one_line(text: str, chars_max: int = HINT_CHARS_MAX) -> str:
    """`text` as far as a person wants it: what a server says must not draw on the user's terminal."""
    printable = "".join(c if c.isprintable() else " " for c in text[: 4 * chars_max])
    return shortened(" ".join(printable.split()), chars_max)


def _text(value: object, depth: int = DEPTH_MAX) -> str:
    match value:
        case str():
            return summary_of(value)
        case dict() if depth:
            found = (_text(value.get(name), depth - 1) for name in ("message", "error", "detail", "title"))
            return next(filter(None, found), "")
        case _:
            return ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


# --- the job operations

_JOB_MEANINGS: Final[Mapping[int, Words]] = {
    403: ("the API key has no permission for this endpoint", "use a key that has"),
    404: ("the service does not know it", "check the endpoint id; a new endpoint is unknown for its first moments"),
    409: ("the job is in no state for this", "look at its status"),
    410: ("the endpoint is gone", "check the endpoint id"),
    500: ("the service failed", "a worker may have crashed: look into the endpoint's logs"),
}
_NO_SUCH_JOB: Final = (
    "the service does not know the job",
    "check both ids; or it was forgotten: a result is kept for 30 minutes (of runsync for 1), at most until the TTL",
)
_BATCH_MEANINGS: Final[Mapping[int, Words]] = {
    400: (
        "the service does not take it",
        "check what was given; or a limit is reached: 5,000 requests a batch, 10 active batches, 50,000 queued",
    ),
    404: (
        "the service does not know the batch, or has no Batch at this endpoint",
        "check both ids; or it was forgotten: how long a batch is kept is not documented",
    ),
    409: ("the batch is in no state for this", "look at it: only a draft can be changed"),
}
_NOT_IN_STATE: Final = {
    Operation.RETRY: ("the service does not retry this job", "only a failed or timed-out job can be retried"),
    Operation.CANCEL: ("the service does not cancel this job", "it may have finished; look at its status"),
}
_OF_A_JOB: Final = frozenset({Operation.STATUS, Operation.STREAM, Operation.CANCEL, Operation.RETRY})
_SUBMITS: Final = frozenset(
    {Operation.RUN, Operation.RUNSYNC, Operation.RETRY, Operation.OPENAI, Operation.HTTP, Operation.BATCH}
)
_PAID_TWICE: Final = "whether it took effect is unknown, and to repeat it may be paid twice"


class JobRefusedError(RefusedError):
    """The service turned a job operation down; `operation` says which one."""

    def __init__(self, doing: str, operation: Operation, refusal: Refusal, *, is_question: bool = False) -> None:
        """`is_question`: it changes nothing, although others of its operation do."""
        self.operation = operation
        caution = _PAID_TWICE if operation in _SUBMITS and not is_question else ""
        super().__init__(doing, refusal, _job_words(operation, refusal.status), caution=caution)


def _job_words(operation: Operation, status: int) -> Words:
    if operation is Operation.BATCH and status in _BATCH_MEANINGS:
        return _BATCH_MEANINGS[status]
    if status == 404 and operation in _OF_A_JOB:  # noqa: PLR2004
        return _NO_SUCH_JOB
    if status in (400, 409, 422) and operation in _NOT_IN_STATE:
        return _NOT_IN_STATE[operation]
    return _JOB_MEANINGS.get(status) or _words(status)
