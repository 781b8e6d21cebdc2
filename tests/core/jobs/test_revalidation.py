"""What becomes of jobs whose outputs are judged anew."""

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.reasons import reason_text
from orchestrator.core.jobs.revalidation import Rechecked, is_meant, other_reason, step_of, tried_again
from orchestrator.core.jobs.run_counters import counters
from orchestrator.core.service.failure_class import FailureClass
from tests.factories import a_job_in, an_outcome

SUCCEEDED = a_job_in(State.SUCCEEDED, failures=1)
FAILED = a_job_in(State.FAILED, failures=3)
RESULT = an_outcome(SUCCEEDED)
INVALID = an_outcome(FAILED, FailureClass.INVALID_OUTPUT, status="COMPLETED", output=b"7")


def test_results_and_what_was_none_for_what_it_is_can_be_judged_anew() -> None:
    assert is_meant(SUCCEEDED, RESULT)
    assert is_meant(FAILED, INVALID)
    assert not is_meant(FAILED, an_outcome(FAILED, FailureClass.FAILED, status="COMPLETED"))
    assert not is_meant(FAILED, an_outcome(FAILED, FailureClass.INVALID_OUTPUT, status=None)), "it was torn on its way"
    assert not is_meant(a_job_in(State.CANCELLED), an_outcome(FAILED, FailureClass.INVALID_OUTPUT, status="COMPLETED"))


def test_a_result_that_is_none_any_more_is_a_failed_execution_and_kept() -> None:
    step = step_of(SUCCEEDED, RESULT, "too short", at=5)
    assert step is not None
    assert (step.event, step.after.state, step.after.failures) == (Event.REVOKED, State.FAILED, 2)
    assert step.outcome is not None
    assert (step.outcome.trouble, step.outcome.message, step.outcome.output) == (
        FailureClass.INVALID_OUTPUT,
        "too short",
        RESULT.output,
    )
    assert counters(step) == ("failed_executions",)


def test_an_output_that_is_good_by_now_is_a_result_and_no_failed_execution() -> None:
    step = step_of(FAILED, INVALID, None, at=5)
    assert step is not None
    assert (step.event, step.after.state, step.after.failures) == (Event.COMPLETED, State.SUCCEEDED, 2)
    assert step.outcome is not None
    assert (step.outcome.trouble, step.outcome.message, step.outcome.output) == (None, None, b"7")


def test_everything_else_stays() -> None:
    assert step_of(SUCCEEDED, RESULT, None, at=5) is None
    assert step_of(FAILED, INVALID, "too short", at=5) is None


def test_what_fails_for_another_reason_by_now_says_so() -> None:
    assert other_reason(FAILED, INVALID, "too short") == "too short"
    assert other_reason(FAILED, INVALID, INVALID.message) is None
    assert other_reason(FAILED, INVALID, None) is None, "it is a result"
    assert other_reason(SUCCEEDED, RESULT, "too short") is None, "it has failed only now"


def test_a_job_is_tried_again_with_the_attempts_that_it_has_left() -> None:
    step = tried_again(a_job_in(State.FAILED, failures=1), max_attempts=3, at=5)
    assert step is not None
    assert (step.after.state, step.after.attempts_max) == (State.QUEUED, 2)
    assert reason_text(step.reason, step.detail) == "asked for, with 2 attempts"
    assert tried_again(a_job_in(State.FAILED, failures=3), max_attempts=3, at=5) is None
    assert tried_again(a_job_in(State.FAILED, failures=1, attempts_max=1), max_attempts=3, at=5) is None


def test_it_is_told_in_numbers() -> None:
    told = str(Rechecked(looked_at=1_000, rejected=20, again=3, accepted=1))
    assert told == "1,000 outputs looked at: 20 rejected (3 of them to be tried again), 1 accepted after all"
    assert str(Rechecked(looked_at=3, failed_otherwise=2)).endswith("0 accepted after all, 2 failed for another reason")
