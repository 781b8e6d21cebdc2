"""Jobs whose request goes straight to a server at a URL: a load balancing endpoint, a pod, any that speaks HTTP.

Between us and what works there may be proxies and balancers, which answer in its place. What they answer tells whether
the request can have been begun: only what certainly was not is sent again at no cost.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from orchestrator.core.lanes.direct_answers import (
    Answered,
    DirectOutcome,
    Unreadable,
    answered,
    content_type,
    error_message_of,
    failure_text,
    record_of,
)
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import HINT_CHARS_MAX, Answer, Pointless, hint_of
from orchestrator.core.service.outcomes import Deferred, Rejected, Uncertain
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import shortened
from orchestrator.errors import NotSent, Unanswered

FAILED: Final = 500
"""The server itself answers so when what it did came to nothing."""

TOO_LONG: Final = 524
"""A proxy had reached the server, and was not answered in time (a load balancing endpoint's: 330 s, as published): it
was executed, and nothing of that comes any more.
"""

NO_WORKER: Final = 400
NO_WORKER_TEXT: Final = re.compile(
    r"no (?:healthy )?workers?(?: is| are)?(?: currently)? available[.!]?", re.IGNORECASE
)
"""A load balancing endpoint has handed the request to nobody."""

NOT_BEGUN: Final = frozenset({425, 503, 521, 522, 523, 525, 526, 529, 530})
"""The server wants none now, or whoever stands before it did not reach it, or not with the whole request."""

GIVEN_UP: Final = 408
THROTTLED: Final = 429
PLAIN_TEXT: Final = "text/plain"
NOT_FOUND: Final = 404

POINTLESS_AT_URL: Final[Mapping[int, str]] = {
    301: "the server says that it is somewhere else (301); give the URL that it names",
    302: "the server sends requests somewhere else (302), to a login perhaps; give the URL that takes them",
    303: "the server sends requests somewhere else (303), to a login perhaps; give the URL that takes them",
    307: "the server sends requests somewhere else (307); give the URL that takes them",
    308: "the server says that it is somewhere else (308); give the URL that it names",
    401: "the server wants a key, or another one (401)",
    402: "the server wants to be paid (402)",
    403: "the server does not allow it (403)",
    404: "the server has nothing at this address (404)",
    405: "the server takes no such requests at this address (405)",
    407: "the proxy wants authentication (407)",
    410: "the server has nothing at this address any more (410)",
    501: "the server takes no such requests (501)",
}
"""What concerns every job of a run, with what to tell the user."""


def of_http(result: Answer | NotSent | Unanswered, *, time_scale: float = 1.0, is_json: bool = False) -> DirectOutcome:
    """What the result of a request to a server at a URL means. `is_json`: it answers with JSON or a stream of it, as by
    OpenAI's interface, or something is wrong.
    """
    if isinstance(result, NotSent):
        return Deferred(FailureClass.TRANSPORT, str(result))
    if isinstance(result, Unanswered):
        return Uncertain(str(result))
    if 200 <= result.status < 300:  # noqa: PLR2004  the range is the definition of success
        return answered(result, time_scale) if is_json else _success(result, time_scale)
    if result.status == FAILED:
        return Answered(record_of(result, "FAILED", time_scale, error=failure_text(result.body)))
    if result.status == TOO_LONG:
        return Answered(record_of(result, "TIMED_OUT", time_scale, error="the server was not done in time (524)"))
    return _not_begun(result) or _refused(result)


def _success(answer: Answer, time_scale: float) -> Answered | Unreadable:
    """Servers of any kind answer with plain texts, too, or with nothing. A page of HTML comes from somebody else."""
    if not answer.body:
        return Answered(record_of(answer, "COMPLETED", time_scale))
    found = answered(answer, time_scale)
    if isinstance(found, Unreadable) and content_type(answer) == PLAIN_TEXT:
        with suppress(UnicodeDecodeError):
            return Answered(
                record_of(answer, "COMPLETED", time_scale, output=msgspec.json.encode(answer.body.decode()))
            )
    return found


def _not_begun(answer: Answer) -> Deferred | None:
    """Where nobody has begun to execute it, but may later."""
    status = answer.status
    if status == THROTTLED:
        return Deferred(FailureClass.THROTTLED, "too many requests (429)", answer.retry_after_s)
    if status in NOT_BEGUN:
        return Deferred(FailureClass.SERVER, f"the server answered {status}", answer.retry_after_s)
    if status == NO_WORKER and NO_WORKER_TEXT.fullmatch(_text(answer.body)):
        return Deferred(FailureClass.SERVER, "no worker was available (400)", answer.retry_after_s)
    return None


def _refused(answer: Answer) -> Rejected | Pointless | Uncertain:
    """A 408 and every other answer of 500 and more (a 502, a 504) leave open whether it was executed, as one that never
    came does.
    """
    status = answer.status
    message, explains_itself = error_message_of(answer.body)
    hint = hint_of(answer.body) if message is None else f": {shortened(summary_of(message), HINT_CHARS_MAX)}"
    if status in POINTLESS_AT_URL and not (status == NOT_FOUND and explains_itself):
        return Pointless(POINTLESS_AT_URL[status], status)
    if 400 <= status < 500 and status != GIVEN_UP:  # noqa: PLR2004
        return Rejected(f"the server refused the request ({status}{hint})")
    return Uncertain(f"the server answered {status}{hint}")


def _text(body: bytes) -> str:
    return (error_message_of(body)[0] or body[:HINT_CHARS_MAX].decode("utf-8", "replace")).strip()
