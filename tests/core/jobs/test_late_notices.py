"""What a step tells whoever has taken our place, as a webhook would."""

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition, late_notice
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from tests.factories import S, a_job_in, an_outcome
from tests.simulation.clock import EPOCH_AT

AT = EPOCH_AT + 9 * S
SENT = a_job_in(State.SUBMITTING)
OUT = a_job_in(State.OUTSTANDING)
UNCERTAIN = a_job_in(State.UNCERTAIN)


def told_by(step: Transition) -> Record | None:
    notice = late_notice(step)
    if notice is not None:
        assert (notice.submission, notice.received_at) == (step.before.submission, step.at)
    return None if notice is None else notice.record


def test_the_answer_to_a_submission_tells_what_the_service_calls_it() -> None:
    accepted = transitions.accepted(SENT, remote_id="r-7", sent_at=EPOCH_AT, at=AT)
    assert told_by(accepted) == Record(remote_id="r-7", status="IN_QUEUE")


@pytest.mark.parametrize("job", [OUT, UNCERTAIN, SENT])
def test_a_result_is_told_whole(job: Job) -> None:
    outcome = an_outcome(OUT, remote_id="r-7", delay_ms=3, execution_ms=4, worker="w")
    step = transitions.completed(job, outcome, reason="status", at=AT)
    assert told_by(step) == Record(
        remote_id="r-7", status="COMPLETED", output=b'{"n":1}', delay_ms=3, execution_ms=4, worker_id="w"
    )


@pytest.mark.parametrize("is_last", [False, True])
def test_a_failure_is_told_whatever_becomes_of_the_job(is_last: bool) -> None:
    outcome = an_outcome(OUT, FailureClass.FAILED)
    if is_last:
        step = transitions.abandoned(OUT, outcome, reason="out of tries", at=AT)
    else:
        step = transitions.retried(
            OUT, FailureClass.FAILED, due_at=AT, retry_until=None, reason="r", at=AT, previous_outcome=outcome
        )
    assert told_by(step) == Record(remote_id="remote-1", status="FAILED", error="it broke")


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"status": "COMPLETED", "output": b"torn"}, FailureClass.INVALID_OUTPUT),
        ({"saved": ("image",)}, None),
        ({"status": "IN_PROGRESS"}, FailureClass.TIMED_OUT),
    ],
)
def test_what_is_not_as_it_was_told_is_asked_for_again_once_it_has_a_name(
    changes: dict[str, object], trouble: FailureClass | None
) -> None:
    outcome = an_outcome(SENT, trouble, remote_id="r-7", **changes)
    end = transitions.completed if trouble is None else transitions.abandoned
    assert told_by(end(SENT, outcome, reason="answer", at=AT)) == Record(remote_id="r-7", status="IN_QUEUE")
    named = end(OUT, an_outcome(OUT, trouble, **changes), reason="status", at=AT)
    assert told_by(named) is None, "the ledger has its name"


@pytest.mark.parametrize(
    "step",
    [
        transitions.unanswered(SENT, settle_at=AT, reason="cut", at=AT),
        transitions.deferred(SENT, due_at=AT, reason="429", at=AT, trouble=FailureClass.THROTTLED),
        transitions.claimed(a_job_in(State.QUEUED), submission=EPOCH_AT, ttl_us=S, at=AT),
        transitions.completed(OUT, an_outcome(OUT, submission=EPOCH_AT - S), reason="webhook", at=AT),
        transitions.completed(a_job_in(State.OUTSTANDING, batch=1), an_outcome(OUT), reason="batch", at=AT),
        transitions.completed(a_job_in(State.FAILED), an_outcome(OUT), reason="webhook", at=AT),
        transitions.cancelled_on_request(a_job_in(State.QUEUED), at=AT),
    ],
    ids=lambda step: f"{step.before.state}-{step.event}",
)
def test_what_nobody_was_told_of_the_latest_submission_is_no_news(step: Transition) -> None:
    assert late_notice(step) is None
