"""Jobs whose request is answered with their result: `/openai/*`, the interface of language-model workers.

Such a request goes past the queue: it has no id, no webhook and no retention, and nothing can be asked about it
afterwards. So its answer is all that there will ever be, and one that never comes may have been paid.
"""

import re
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.lanes.direct_answers import (
    Answered,
    DirectOutcome,
    answered,
    error_message_of,
    failure_text,
    record_of,
)
from orchestrator.core.service.http_answers import HINT_CHARS_MAX, Answer
from orchestrator.core.service.outcomes import Accepted, NotRetried, Rejected, run_outcome
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import shortened
from orchestrator.errors import NotSent, Unanswered

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
    return DirectRequest(found.openai_route, body)


def check_not_streamed(body: bytes) -> None:
    """Raises `ValueError` where a request asks for its answer in pieces."""
    if b'"stream"' in body and _question.decode(body).stream is True:
        raise ValueError("a job in the queue has no stream; leave stream out of the body")


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
            return answered(result, time_scale)
        if result.status == _FAILED:
            return Answered(record_of(result, "FAILED", time_scale, error=failure_text(result.body)))
        message, is_of_worker = error_message_of(result.body)
        if result.status == _UNKNOWN and is_of_worker:
            return Rejected(
                f"the worker refused the request (404: {shortened(summary_of(message or ''), HINT_CHARS_MAX)})"
            )
    outcome = run_outcome(result)
    assert not isinstance(outcome, Accepted | NotRetried)
    return outcome
