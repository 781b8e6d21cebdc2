"""Which steps of jobs end executions, and what they tell."""

from typing import Any

import msgspec
import pytest

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.ended_executions import ended_by
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.segments import SegmentEnd, SegmentProgress, segment_end
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass

JOB = Job(
    id=1, run=1, endpoint=1, state=State.OUTSTANDING, submission=64, attempt=1, sent_at=1, ttl_at=9, remote_id="r"
)


def outcome(**fields: Any) -> Outcome:
    return Outcome(**{"submission": 64, "remote_id": "r", "status": "FAILED", **fields})


def retried(trouble: FailureClass, **told: Any) -> Transition:
    return transitions.retried(
        JOB,
        trouble,
        due_at=5,
        retry_until=None,
        reason="status",
        at=2,
        previous_outcome=outcome(trouble=trouble, **told),
    )


def test_a_result_is_an_execution_that_did_well() -> None:
    ended = ended_by(transitions.completed(JOB, outcome(execution_ms=1_500), reason="status", at=2))
    assert ended is not None
    assert ended.took == DurationTotals(timed=1, total_ms=1_500, squares=2.25)
    assert ended.execution is not None
    assert not ended.execution.is_failed


def test_a_result_of_an_earlier_submission_leaves_another_one_to_be_paid() -> None:
    step = transitions.completed(JOB, outcome(submission=7, execution_ms=1_000), reason="webhook", at=2)
    ended = ended_by(step)
    assert ended is not None
    assert (ended.took.timed, ended.took.untimed) == (1, 1)


def test_what_a_batch_has_executed_is_counted_apart_but_not_what_was_sent_before_by_run() -> None:
    job = msgspec.structs.replace(JOB, batch=3)

    def in_batches_ms(step: Transition) -> int:
        ended = ended_by(step)
        assert ended is not None
        return ended.took.batch_ms

    assert in_batches_ms(transitions.completed(job, outcome(execution_ms=1_500), reason="batch", at=2)) == 1_500
    assert in_batches_ms(transitions.completed(job, outcome(submission=7, execution_ms=9), reason="webhook", at=2)) == 0
    lost = outcome(trouble=FailureClass.LOST, execution_ms=400)
    assert in_batches_ms(transitions.abandoned(job, lost, reason="batch", at=2)) == 400
    failed = outcome(trouble=FailureClass.FAILED, execution_ms=300)
    assert in_batches_ms(transitions.abandoned(job, failed, reason="batch", at=2)) == 300
    assert in_batches_ms(transitions.cancelled(job, outcome(execution_ms=7), reason="batch", at=2)) == 7


@pytest.mark.parametrize("trouble", [FailureClass.FAILED, FailureClass.TIMED_OUT, FailureClass.INVALID_OUTPUT])
def test_a_failure_that_is_tried_again_tells_its_time_and_its_kind(trouble: FailureClass) -> None:
    first = ended_by(retried(trouble, message="step 7 failed: boom", execution_ms=400))
    other = ended_by(retried(trouble, message="step 99 failed: boom", execution_ms=400))
    assert first is not None
    assert other is not None
    assert (first.took.timed, first.took.total_ms, first.took.failed) == (1, 400, 1)
    assert first.execution is not None
    assert other.execution is not None
    assert first.execution.kind == other.execution.kind
    assert first.execution.summary == f"{trouble}: step 7 failed: boom"


def test_the_last_failure_of_a_job_tells_the_same() -> None:
    end = outcome(trouble=FailureClass.FAILED, message="boom", execution_ms=400)
    ended = ended_by(transitions.abandoned(JOB, end, reason="status", at=2))
    again = ended_by(retried(FailureClass.FAILED, message="boom"))
    assert ended is not None
    assert again is not None
    assert ended.took.total_ms == 400
    assert ended.execution == again.execution
    assert again.took == DurationTotals(untimed=1, failed=1)


@pytest.mark.parametrize("trouble", [FailureClass.LOST, FailureClass.EXPIRED, FailureClass.UNCERTAIN])
def test_what_may_have_run_may_be_paid_and_says_nothing_else(trouble: FailureClass) -> None:
    ended = ended_by(retried(trouble))
    assert ended is not None
    assert (ended.took, ended.execution) == (DurationTotals(untimed=1), None)


def test_what_was_refused_or_not_sent_ends_none() -> None:
    refused = transitions.abandoned(
        msgspec.structs.replace(JOB, state=State.SUBMITTING),
        outcome(trouble=FailureClass.REJECTED, message="bad"),
        reason="rejected",
        at=2,
    )
    waiting = msgspec.structs.replace(JOB, state=State.QUEUED)
    claimed = transitions.claimed(waiting, submission=128, ttl_us=9, at=2)
    assert [ended_by(step) for step in (refused, claimed)] == [None, None]


def test_a_cancelled_one_is_paid_where_it_was_executed() -> None:
    run = transitions.cancelled(JOB, outcome(trouble=FailureClass.CANCELLED, execution_ms=70), reason="asked for", at=2)
    never = transitions.cancelled(JOB, outcome(trouble=FailureClass.CANCELLED), reason="asked for", at=2)
    ended = ended_by(run)
    assert ended is not None
    assert (ended.took.total_ms, ended.execution) == (70, None)
    assert ended_by(never) is None


def test_a_segment_that_was_given_back_did_well_and_one_that_failed_did_not() -> None:
    end: SegmentEnd = segment_end(SegmentProgress(segment=1), None, unfinished_at=None)
    well = ended_by(transitions.continued(JOB, end, due_at=2, reason="given back unfinished", at=2))
    bad = ended_by(transitions.continued(JOB, end, due_at=2, reason="status", at=2, trouble=FailureClass.FAILED))
    assert well is not None
    assert bad is not None
    assert well.execution is not None
    assert bad.execution is not None
    assert (well.execution.is_failed, bad.execution.is_failed) == (False, True)
    assert bad.execution.summary == "failed:"
