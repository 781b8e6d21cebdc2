"""Whether executions fail at one member of a pool alone."""

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.segments import SegmentEnd
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.pools.member_outcomes import LATEST, LatestOutcomes, execution_failed, fails_alone
from orchestrator.core.service.failure_class import FailureClass
from tests.factories import a_job_in, an_outcome

JOB = a_job_in(State.OUTSTANDING)
A_SEGMENT = SegmentEnd(has_progressed=True, report=None, execution_ms=1, executed_ms=1)


def outcomes(*, succeeded: int = 0, failed: int = 0) -> LatestOutcomes:
    found = LatestOutcomes()
    for is_failed in (*[False] * succeeded, *[True] * failed):
        found.add(is_failed=is_failed)
    return found


@pytest.mark.parametrize(
    ("succeeded", "failed", "found"),
    [(0, 3, False), (0, 4, True), (1, 5, False), (1, 6, True), (4, 11, False), (4, 12, True), (LATEST, LATEST, True)],
)
def test_of_few_all_must_have_failed_and_of_many_nearly_all(succeeded: int, failed: int, *, found: bool) -> None:
    assert fails_alone(outcomes(succeeded=succeeded, failed=failed), [outcomes(succeeded=9)]) is found


@pytest.mark.parametrize(
    ("others", "found"),
    [
        ([], False),
        ([outcomes(succeeded=3)], False),
        ([outcomes(succeeded=2), outcomes(succeeded=2)], True),
        ([outcomes(succeeded=5, failed=5)], True),
        ([outcomes(succeeded=5, failed=6)], False),
        ([outcomes(failed=8), outcomes(succeeded=8)], True),
    ],
)
def test_where_others_fail_as_well_it_is_the_rows(others: list[LatestOutcomes], *, found: bool) -> None:
    assert fails_alone(outcomes(failed=8), others) is found


def test_what_has_failed_last_is_counted_until_it_is_forgotten() -> None:
    own = outcomes(failed=8)
    assert own.failed_last == 8
    own.add(is_failed=False)
    assert own.failed_last == 0
    own.add(is_failed=True)
    assert own.failed_last == 1
    own.forget()
    assert (own.ended, own.failed, own.failed_last) == (0, 0, 0)


def retried(trouble: FailureClass) -> Transition:
    return transitions.retried(JOB, trouble, due_at=1, retry_until=None, reason="", at=1)


@pytest.mark.parametrize(
    ("step", "found"),
    [
        (transitions.completed(JOB, an_outcome(JOB), reason="status", at=1), False),
        (transitions.completed(JOB, an_outcome(JOB, submission=None), reason="status", at=1), None),
        (retried(FailureClass.FAILED), True),
        (retried(FailureClass.INVALID_OUTPUT), True),
        (retried(FailureClass.LOST), None),
        (transitions.abandoned(JOB, an_outcome(JOB, FailureClass.TIMED_OUT), reason="", at=1), True),
        (transitions.continued(JOB, A_SEGMENT, due_at=1, reason="", at=1), False),
        (transitions.deferred(JOB, due_at=1, reason="", at=1), None),
    ],
)
def test_only_executions_that_say_something_of_the_handler_count(step: Transition, *, found: bool | None) -> None:
    assert execution_failed(step) is found
