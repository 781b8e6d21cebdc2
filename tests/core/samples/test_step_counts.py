"""What steps add up to: requests by their answers, ends, executions by their results, and how long they took."""

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import TRANSITIONS, Event, State
from orchestrator.core.samples.step_counts import LEADS_TO, CountedStep, StepCounts, counted_step
from orchestrator.core.service.failure_class import FailureClass
from tests.factories import STEPS, S, a_job, a_job_in, an_outcome

AT = 1_700_000_000 * S


def counts(*steps: CountedStep, price: float | None = None) -> StepCounts:
    found = StepCounts()
    for step in steps:
        found.add(step, price)
    return found


def test_after_each_event_there_is_one_state_whatever_was_before() -> None:
    for row in TRANSITIONS.values():
        assert row.items() <= LEADS_TO.items()


@pytest.mark.parametrize(
    ("event", "trouble", "answer"),
    [
        (Event.ACCEPTED, None, "accepted"),
        (Event.ADOPTED, None, "accepted"),
        (Event.COMPLETED, None, "accepted"),
        (Event.UNANSWERED, None, "unanswered"),
        (Event.DEFERRED, FailureClass.THROTTLED, "deferred"),
        (Event.ABANDONED, FailureClass.REJECTED, "refused"),
        (Event.RETRIED, FailureClass.FAILED, "accepted"),  # by a way on which the answer is the result
    ],
)
def test_a_request_is_counted_by_what_came_of_it(event: Event, trouble: FailureClass | None, answer: str) -> None:
    assert counts(CountedStep(event, State.SUBMITTING, trouble)).submissions == {answer: 1}
    assert CountedStep(event, State.OUTSTANDING, trouble).answer is None


@pytest.mark.parametrize(
    ("event", "before", "trouble", "result"),
    [
        (Event.COMPLETED, State.OUTSTANDING, None, "succeeded"),
        (Event.COMPLETED, State.FAILED, None, "succeeded"),
        (Event.RETRIED, State.OUTSTANDING, FailureClass.FAILED, "failed"),
        (Event.ABANDONED, State.OUTSTANDING, FailureClass.TIMED_OUT, "timed_out"),
        (Event.RETRIED, State.OUTSTANDING, FailureClass.EXPIRED, "expired"),
        (Event.CONTINUED, State.OUTSTANDING, None, "continued"),
        (Event.RETRIED, State.UNCERTAIN, FailureClass.UNCERTAIN, None),
        (Event.ABANDONED, State.SUBMITTING, FailureClass.REJECTED, None),
        (Event.CANCELLED, State.OUTSTANDING, None, None),
        (Event.REVOKED, State.SUCCEEDED, FailureClass.INVALID_OUTPUT, None),
    ],
)
def test_an_execution_is_counted_by_its_result(
    event: Event, before: State, trouble: FailureClass | None, result: str | None
) -> None:
    assert counts(CountedStep(event, before, trouble)).executions == ({} if result is None else {result: 1})


def test_another_ones_result_ends_a_job_and_is_no_execution() -> None:
    found = counts(CountedStep(Event.COMPLETED, State.QUEUED, is_executed=False, execution_ms=5), price=1.0)
    assert (found.ends, found.executions, found.spent) == ({"succeeded": 1}, {}, 0.0)
    assert found.execution.values.total == 0


@pytest.mark.parametrize(
    ("event", "settled"),
    [
        (Event.ADOPTED, "adopted"),
        (Event.COMPLETED, "adopted"),
        (Event.RETRIED, "resubmitted"),
        (Event.ABANDONED, "given_up"),
        (Event.CANCELLED, "given_up"),
    ],
)
def test_what_became_of_an_uncertain_submission_is_counted(event: Event, settled: str) -> None:
    assert counts(CountedStep(event, State.UNCERTAIN)).settled == {settled: 1}
    assert counts(CountedStep(event, State.OUTSTANDING)).settled == {}


def test_times_and_what_they_cost_are_added_up() -> None:
    found = counts(
        CountedStep(Event.COMPLETED, State.OUTSTANDING, None, 200, 3_000, 20 * S),
        CountedStep(Event.RETRIED, State.OUTSTANDING, FailureClass.FAILED, None, 1_000),
        CountedStep(Event.COMPLETED, State.OUTSTANDING, is_paid_twice=True),
        price=0.5,
    )
    assert found.queue.values.sum_s == 0.2
    assert found.execution.values.sum_s == 4.0
    assert found.margin.values.sum_s == 20.0
    assert (found.spent, found.paid_twice) == (2.0, 1)


def test_many_successes_at_once_come_to_what_each_alone_would() -> None:
    told = [(200, 3_000, 20 * S), (None, 1_000, None), (10, None, S)]
    at_once, one_by_one = StepCounts(), StepCounts()
    at_once.add_successes(told, 0.5)
    for each in told:
        one_by_one.add(CountedStep(Event.COMPLETED, State.OUTSTANDING, None, *each), 0.5)
    for name in ("ends", "executions", "spent"):
        assert getattr(at_once, name) == getattr(one_by_one, name)
    for name in ("margin", "queue", "execution"):
        assert getattr(at_once, name).values == getattr(one_by_one, name).values


def test_without_a_price_nothing_is_known_to_be_spent() -> None:
    assert counts(CountedStep(Event.COMPLETED, State.OUTSTANDING, execution_ms=3_000)).spent == 0.0


def test_a_step_that_only_claims_is_not_counted() -> None:
    assert counted_step(STEPS["claimed"][1](a_job(), AT)) is None


def test_of_a_step_is_counted_what_was_told_of_its_execution() -> None:
    job = a_job_in(State.OUTSTANDING)
    own = an_outcome(job, delay_ms=10, execution_ms=20, margin_us=5)
    assert counted_step(transitions.completed(job, own, reason="status", at=AT)) == CountedStep(
        Event.COMPLETED, State.OUTSTANDING, None, 10, 20, 5
    )
    earlier = counted_step(transitions.completed(job, an_outcome(job, submission=6), reason="webhook", at=AT))
    assert earlier is not None
    assert (earlier.is_paid_twice, earlier.is_executed) == (True, True)
    borrowed = counted_step(transitions.completed(job, an_outcome(job, submission=None), reason="reused", at=AT))
    assert borrowed is not None
    assert not borrowed.is_executed
    nothing = counted_step(transitions.abandoned(job, an_outcome(job, FailureClass.FAILED), reason="status", at=AT))
    assert nothing is not None
    assert nothing.trouble is FailureClass.FAILED
