"""What the result of a `/run` or a `/retry` means for the job. Callers `match` on it exhaustively."""

from typing import Final

import msgspec

from orchestrator.core.service.answers import POINTLESS, Answer, Pointless, Trouble, hint_of
from orchestrator.core.service.records import is_of_another, is_remote_id
from orchestrator.errors import NotSent, Unanswered

OF_ANOTHER: Final = "the service answers with the record of another job"
SAME_ID: Final = "the service gives a new job the id of another"


class Accepted(msgspec.Struct, frozen=True):
    """The service has the job under this id."""

    remote_id: str


class Deferred(msgspec.Struct, frozen=True):
    """Nothing happened at the service; to be repeated later, at no cost. `retry_after_s` is the service's wish."""

    trouble: Trouble
    reason: str
    retry_after_s: float | None = None


class Rejected(msgspec.Struct, frozen=True):
    """The service will never take this job."""

    reason: str


class Uncertain(msgspec.Struct, frozen=True):
    """The request may have taken effect, and nobody told us. With `is_repeated_id` it gave the id of another job."""

    reason: str
    is_repeated_id: bool = False


class NotRetried(msgspec.Struct, frozen=True):
    """The service knows the job and makes no `/retry` of it: it may be in another state than we were told."""

    reason: str


RunOutcome = Accepted | Deferred | Rejected | Pointless | Uncertain | NotRetried


class _RunAnswer(msgspec.Struct, frozen=True):
    id: str


_run_answer = msgspec.json.Decoder(_RunAnswer)


def run_outcome(result: Answer | NotSent | Unanswered) -> RunOutcome:
    """What the result of a `POST /run` means (docs/why/how-it-works.md, "What happened to a submission")."""
    if isinstance(result, NotSent):
        return Deferred(Trouble.TRANSPORT, str(result))
    if isinstance(result, Unanswered):
        return Uncertain(str(result))
    if 200 <= result.status < 300:  # noqa: PLR2004  the range is the definition of success
        return _accepted(result.body)
    return _refused(result)


def _accepted(body: bytes) -> Accepted | Uncertain:
    try:
        remote_id = _run_answer.decode(body).id
    except (ValueError, RecursionError):
        return Uncertain("the service answered without a usable id")
    return Accepted(remote_id) if is_remote_id(remote_id) else Uncertain("the service answered with an unusable id")


def _refused(answer: Answer) -> RunOutcome:
    """The meaning of an answer that is not a 2xx."""
    status = answer.status
    if status == 429:  # noqa: PLR2004
        return Deferred(Trouble.THROTTLED, "too many requests (429)", answer.retry_after_s)
    if status in (408, 425, 503):
        return Deferred(Trouble.SERVER, f"the service answered {status}", answer.retry_after_s)
    if status in POINTLESS:
        return Pointless(POINTLESS[status], status)
    if 400 <= status < 500:  # noqa: PLR2004
        return Rejected(f"the service refused the job ({status}{hint_of(answer.body)})")
    return Uncertain(f"the service answered {status}{hint_of(answer.body)}")


def retry_outcome(result: Answer | NotSent | Unanswered, remote_id: str) -> RunOutcome:
    """What the result of a `POST /retry/{remote_id}` means.

    The remote id is known already, so an unanswered `/retry` is not uncertain for long: `/status` decides. A 404 or 410
    means that the service has forgotten the job: `Rejected`, and the caller submits it anew. Any other refusal is
    about a job that it knows, and that may have another state than we were told: `NotRetried`, `/status` tells.
    """
    if isinstance(result, Answer):
        if 200 <= result.status < 300:  # noqa: PLR2004
            return Uncertain(OF_ANOTHER) if is_of_another(result.body, remote_id) else Accepted("")
        if result.status in (400, 404, 405, 409, 410, 413, 422):
            reason = f"the service no longer retries this job ({result.status}{hint_of(result.body)})"
            return Rejected(reason) if result.status in (404, 405, 410) else NotRetried(reason)
    return run_outcome(result)
