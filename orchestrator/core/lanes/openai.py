"""Jobs whose request is answered with their result: `/openai/*`, the interface of language-model workers.

Such a request goes past the queue: it has no id, no webhook and no retention, and nothing can be asked about it
afterwards. So its answer is all that there will ever be, and one that never comes may have been paid.
"""

import re
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.service.http_answers import HINT_CHARS_MAX, Answer, Pointless
from orchestrator.core.service.job_record import MESSAGE_CHARS_MAX, Record
from orchestrator.core.service.outcomes import Accepted, Deferred, NotRetried, Rejected, Uncertain, run_outcome
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.json_compact import compact
from orchestrator.core.text.wording import shortened
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import MILLISECOND_US

ROUTE: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._~:@-]{1,256}){1,16}")
"""A path that leads nowhere but below `/openai`."""


class DirectRequest(NamedTuple):
    """A request: where to, as in `/v1/chat/completions`, and its body, a JSON object."""

    route: str
    body: bytes


class _Input(msgspec.Struct, forbid_unknown_fields=True):
    openai_route: str
    openai_input: msgspec.Raw


class _Question(msgspec.Struct):
    stream: object = None


_input: Final = msgspec.json.Decoder(_Input)
_question: Final = msgspec.json.Decoder(_Question)


def direct_request(given: bytes) -> DirectRequest:
    """The request that an input stands for. Raises `ValueError` in words for its author."""
    try:
        found = _input.decode(given)
    except msgspec.ValidationError:
        raise ValueError(
            'only an input of "openai_route" and "openai_input" can go to /openai/*, such as a request of an OpenAI'
            " Batch file becomes"
        ) from None
    if ROUTE.fullmatch(found.openai_route) is None:
        raise ValueError(f'"{found.openai_route:.80}" is no path below /openai, as /v1/chat/completions is')
    body = bytes(found.openai_input)
    if not body.startswith(b"{"):
        raise ValueError("openai_input must be an object")
    check_not_streamed(body)
    return DirectRequest(found.openai_route, body)


def check_not_streamed(body: bytes) -> None:
    """Raises `ValueError` where a request asks for its answer in pieces."""
    if b'"stream"' in body and _question.decode(body).stream is True:
        raise ValueError("a batch has no streams; leave stream out of the body")


class Answered(msgspec.Struct, frozen=True):
    """The execution is over, as the record says that is made of the answer."""

    record: Record


class Unreadable(msgspec.Struct, frozen=True):
    """The execution is over, and nobody can read what came of it."""

    raw: bytes


DirectOutcome = Answered | Unreadable | Deferred | Rejected | Pointless | Uncertain

UNEXPLAINED: Final = "the worker answered 500 and gave no reason"

_FAILED: Final = 500
_UNKNOWN: Final = 404


def of_openai(result: Answer | NotSent | Unanswered, *, time_scale: float = 1.0) -> DirectOutcome:
    """What the result of a `POST /openai/*` means.

    A 500 is the worker's answer, where that of a `/run` may hide a job: the execution is over, and has failed. A 404
    that explains itself as these workers do is about the request (a model that they do not have), not the endpoint.
    `time_scale` is how fast the service's time runs.
    """
    if isinstance(result, Answer):
        if 200 <= result.status < 300:  # noqa: PLR2004  the range is the definition of success
            return _answered(result, time_scale)
        if result.status == _FAILED:
            return Answered(_record(result, "FAILED", time_scale, error=_message(result.body)))
        message, is_of_worker = _said(result.body)
        if result.status == _UNKNOWN and is_of_worker:
            return Rejected(
                f"the worker refused the request (404: {shortened(summary_of(message or ''), HINT_CHARS_MAX)})"
            )
    outcome = run_outcome(result)
    assert not isinstance(outcome, Accepted | NotRetried)
    return outcome


def _answered(answer: Answer, time_scale: float) -> Answered | Unreadable:
    try:
        body = compact(answer.body)
    except (ValueError, RecursionError):
        return Unreadable(answer.body)
    return Answered(_record(answer, "COMPLETED", time_scale, output=body))


def _record(
    answer: Answer, status: str, time_scale: float, *, output: bytes | None = None, error: str | None = None
) -> Record:
    """Its execution took no longer than the request did, which is all that is known of it."""
    took_us = max(0, answer.answered_at - answer.sent_at) * time_scale
    return Record(
        remote_id=None, status=status, output=output, error=error, execution_ms=round(took_us / MILLISECOND_US)
    )


class _Error(msgspec.Struct):
    """An error in either of the shapes that these workers have for it, or in the service's."""

    object: str | None = None
    message: str | None = None
    error: "_Error | str | None" = None


_error: Final = msgspec.json.Decoder(_Error)


def _said(body: bytes) -> tuple[str | None, bool]:
    """What an error says, and whether it has the shape of these workers' errors."""
    try:
        found = _error.decode(body)
    except (ValueError, RecursionError):
        return None, False
    if isinstance(found.error, _Error):
        return found.error.message, True
    return found.error or found.message, found.object == "error"


def _message(body: bytes) -> str:
    message, _ = _said(body)
    return (message or body.decode("utf-8", "replace").strip())[:MESSAGE_CHARS_MAX] or UNEXPLAINED
