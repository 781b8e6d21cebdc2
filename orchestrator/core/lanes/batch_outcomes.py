"""What the result of each request to the service's own Batch means. Callers `match` on the outcomes."""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import msgspec

from orchestrator.core.service.batches import (
    BatchChanged,
    BatchList,
    BatchPage,
    ServiceBatch,
    read_batch,
    read_batch_change,
    read_batch_list,
    read_batch_page,
)
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import POINTLESS, Answer, Pointless, hint_of
from orchestrator.core.service.outcomes import AskAgain, Deferred, Gone, Uncertain
from orchestrator.errors import NotSent, Unanswered

HAS_NO_BATCHES: Final = "the service does not know this endpoint, or has no Batch there"

_THROTTLED: Final = 429
_NOT_NOW: Final = frozenset({408, 425, 503})
OF_THE_PATH: Final = frozenset({404, 410})
_NOT_SHOWN: Final = frozenset({400, 405, 409, 422})
_NO_CONTENT: Final = 204
_NOT_IMPLEMENTED: Final = 501
OF_THE_KEY: Final = frozenset({401, 402, 403, 407})
"""What concerns every request of ours, whatever it is about."""

T = TypeVar("T")


# --- of what changes something


class BatchRefused(msgspec.Struct, frozen=True):
    """Nothing was done: the service takes it not at all, or not in the state in which things are.

    No status is documented for any limit, nor for a batch that is no draft: whoever asked knows what it can be.
    """

    status: int
    reason: str


BatchChange = BatchChanged | Deferred | BatchRefused | Gone | Pointless | Uncertain


def batch_change_outcome(
    result: Answer | NotSent | Unanswered, batch_id: str | None = None, *, requests: int = 0
) -> BatchChange:
    """What the result of a request means that changes the batch `batch_id`, or with None, creates one.

    `requests` is how many requests were sent with it. `Gone`: the service does not know the batch.
    """
    if isinstance(result, NotSent):
        return Deferred(FailureClass.TRANSPORT, str(result))
    if isinstance(result, Unanswered):
        return Uncertain(str(result))
    if 200 <= result.status < 300:  # noqa: PLR2004  the range is the definition of success
        return _changed(result, batch_id, requests)
    return _not_changed(result, batch_id)


def _changed(answer: Answer, batch_id: str | None, requests: int) -> BatchChanged | Uncertain:
    if answer.status == _NO_CONTENT and batch_id is not None:
        return BatchChanged()
    try:
        return read_batch_change(answer.body, batch_id, requests)
    except ValueError as problem:
        return Uncertain(str(problem))


def _not_changed(answer: Answer, batch_id: str | None) -> BatchChange:
    status = answer.status
    if status == _THROTTLED or status in _NOT_NOW:
        return Deferred(*_not_now(answer))
    if status in OF_THE_PATH and batch_id is not None:
        return Gone()
    if status in OF_THE_PATH or status == _NOT_IMPLEMENTED:
        return Pointless(f"{HAS_NO_BATCHES} ({status})", status)
    if status in POINTLESS:
        return Pointless(POINTLESS[status], status)
    if 400 <= status < 500:  # noqa: PLR2004
        return BatchRefused(status, f"the service refused it ({status}{hint_of(answer.body)})")
    return Uncertain(f"the service answered {status}{hint_of(answer.body)}")


# --- of questions


def batch_outcome(result: Answer | NotSent | Unanswered, batch_id: str) -> ServiceBatch | Gone | AskAgain | Pointless:
    """What the result of a question about the batch `batch_id` means."""
    return _outcome(result, partial(read_batch, batch_id=batch_id))


def batch_page_outcome(
    result: Answer | NotSent | Unanswered, offset: int
) -> BatchPage | BatchRefused | Gone | AskAgain | Pointless:
    """What the result of a question for the requests of a batch from `offset` on means. It may be refused for a batch
    that is known: of a draft, for one.
    """
    if isinstance(result, Answer) and result.status in _NOT_SHOWN:
        return BatchRefused(result.status, f"the service refused it ({result.status}{hint_of(result.body)})")
    return _outcome(result, partial(read_batch_page, offset=offset))


def batch_list_outcome(result: Answer | NotSent | Unanswered, offset: int = 0) -> BatchList | AskAgain | Pointless:
    """What the result of a question for all batches of an endpoint means, from the newest but `offset` on."""
    outcome = _outcome(result, partial(read_batch_list, offset=offset))
    return Pointless(HAS_NO_BATCHES, 404) if isinstance(outcome, Gone) else outcome


def _outcome(result: Answer | NotSent | Unanswered, read: Callable[[bytes], T]) -> T | Gone | AskAgain | Pointless:
    """What a question brought, as `read` takes it out of the answer."""
    if not isinstance(result, Answer):
        return AskAgain(FailureClass.TRANSPORT, str(result))
    status = result.status
    if 200 <= status < 300:  # noqa: PLR2004
        try:
            return read(result.body)
        except ValueError as problem:
            return AskAgain(FailureClass.SERVER, str(problem))
    if status in OF_THE_PATH:
        return Gone()
    if status in OF_THE_KEY:
        return Pointless(POINTLESS[status], status)
    return AskAgain(*_not_now(result))


def _not_now(answer: Answer) -> tuple[FailureClass, str, float | None]:
    """The trouble of a request that may be repeated later, and after how long the service wants it."""
    if answer.status == _THROTTLED:
        return FailureClass.THROTTLED, "too many requests (429)", answer.retry_after_s
    return FailureClass.SERVER, f"the service answered {answer.status}", answer.retry_after_s
