"""What a step of the first row of a chunk makes of the others, and what becomes of them where the chunk failed."""

import pytest
from msgspec.structs import replace

from orchestrator.core.chunks.chunk_steps import (
    UNTOLD,
    claimed_together,
    halved,
    halved_unsent,
    is_led,
    riders_steps,
    share_of,
    with_riders,
)
from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.ended_executions import ended_by
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.reasons import ReasonCode, reason_text
from orchestrator.core.jobs.run_counters import counters
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.samples.step_counts import StepCounts, counted_step
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from tests.factories import TTL_US, S, a_job, an_outcome

AT = 1_000 * S


def together(*jobs: Job, lead: int = AT) -> list[Job]:
    """These, claimed as one chunk."""
    steps = [transitions.claimed(job, submission=lead + n, ttl_us=TTL_US, at=AT) for n, job in enumerate(jobs)]
    return [claimed_together(step, lead=lead, rows=len(jobs)).after for step in steps]


def at_service(*jobs: Job) -> list[Job]:
    lead, *riders = together(*jobs)
    step = transitions.accepted(lead, remote_id="r", sent_at=AT + 1, at=AT + 2)
    return [step.after, *(each.after for each in riders_steps(step, riders))]


LEAD, RIDER = a_job(id=1), a_job(id=2, failures=1, attempt=4)


def test_the_first_leads_and_the_others_ride() -> None:
    lead, rider = together(LEAD, RIDER)
    assert (lead.has_riders, lead.is_rider, lead.is_carried) == (True, False, False)
    assert (rider.has_riders, rider.is_rider, rider.is_carried) == (False, True, True)
    [alone] = together(LEAD)
    assert (alone.has_riders, alone.is_rider, alone.is_carried) == (False, False, False)
    again = transitions.claimed(replace(rider, state=State.QUEUED), submission=AT + 9, ttl_us=TTL_US, at=AT).after
    assert (again.chunk, again.chunk_rows) == (None, 0)


def test_what_was_claimed_for_another_reason_says_so() -> None:
    step = transitions.claimed(LEAD, submission=AT, ttl_us=TTL_US, at=AT)
    assert claimed_together(step, lead=AT, rows=2).reason is ReasonCode.CHUNK
    told = replace(step, reason=ReasonCode.NOT_REUSED)
    assert claimed_together(told, lead=AT, rows=2).reason is ReasonCode.NOT_REUSED


def test_riders_take_the_steps_of_their_lead_with_counters_of_their_own() -> None:
    lead, rider = together(LEAD, RIDER)
    assert (rider.attempt, rider.failures) == (5, 1)
    step = transitions.unanswered(lead, settle_at=AT + 9, reason="no answer", at=AT + 3)
    [ridden] = riders_steps(step, [rider])
    assert (ridden.event, ridden.before, ridden.is_ridden) == (Event.UNANSWERED, rider, True)
    assert (ridden.after.state, ridden.after.uncertain, ridden.after.due_at) == (State.UNCERTAIN, 1, AT + 9)
    assert (counters(step), counters(ridden)) == (("uncertain_seen",), ())
    back = transitions.deferred(lead, due_at=AT + 5, reason="429", at=AT, trouble=FailureClass.THROTTLED)
    [given_back] = riders_steps(back, [rider])
    assert (given_back.after.attempt, given_back.after.deferrals, given_back.after.state) == (4, 1, State.QUEUED)
    assert given_back.after.remote_id is None


def test_an_outcome_of_a_chunk_is_of_the_submission_of_each() -> None:
    lead, rider = at_service(LEAD, RIDER)
    outcome = an_outcome(lead, FailureClass.LOST)
    step = transitions.abandoned(lead, outcome, reason="lost", at=AT + 9)
    [ridden] = riders_steps(step, [rider])
    assert ridden.outcome == replace(outcome, submission=rider.submission)
    assert ridden.after.lost == 1
    retried = transitions.retried(
        lead, FailureClass.LOST, due_at=AT, retry_until=None, reason="lost", at=AT + 9, previous_outcome=outcome
    )
    [again] = riders_steps(retried, [rider])
    assert again.previous_outcome == replace(outcome, submission=rider.submission)


def test_whoever_has_left_before_takes_no_step() -> None:
    lead, rider = at_service(LEAD, RIDER)
    step = transitions.abandoned(lead, an_outcome(lead, FailureClass.LOST), reason="lost", at=AT + 9)
    assert is_led(step)
    assert riders_steps(step, [replace(rider, state=State.CANCELLED)]) == []
    assert not is_led(transitions.reopened(replace(lead, state=State.FAILED), at=AT))
    assert not is_led(replace(step, before=rider))


def test_where_the_chunk_has_ended_each_has_a_step_of_its_own_and_one_without_goes_again() -> None:
    lead, rider, other = at_service(LEAD, RIDER, a_job(id=3))
    steps = [transitions.completed(job, an_outcome(job), reason="status", at=AT + 9) for job in (lead, rider)]
    step = with_riders(steps)
    own, again = riders_steps(step, [rider, other])
    assert own is steps[1]
    assert (again.event, again.reason, again.after.state) == (Event.RETRIED, ReasonCode.CHUNK_HALVED, State.QUEUED)
    assert again.detail is not None
    assert again.detail.because == UNTOLD
    alone = with_riders(steps[:1])
    assert (alone, [each.event for each in riders_steps(alone, [rider])]) == (steps[0], [Event.RETRIED])


def test_a_chunk_that_failed_goes_again_in_halves_and_costs_no_attempt() -> None:
    lead, rider, _ = at_service(LEAD, RIDER, a_job(id=3))
    step = halved(rider, FailureClass.FAILED, because="x" * 999, due_at=AT + 99, at=AT)
    assert (step.after.chunk_most, step.after.failures, step.after.attempt) == (1, 1, 5)
    assert step.detail is not None
    assert len(step.detail.because) == 300
    told = halved(lead, FailureClass.FAILED, because="no memory", due_at=AT, at=AT)
    assert reason_text(told.reason, told.detail) == "its chunk is halved: no memory, which costs no attempt"
    assert counters(told) == ("failed_executions", "retried_executions", "free_executions")


def test_a_chunk_that_was_never_taken_gives_its_attempts_back() -> None:
    lead, *riders = together(LEAD, *(a_job(id=n) for n in range(2, 17)))
    step = halved_unsent(lead, because="too large", at=AT)
    assert (step.after.chunk_most, step.after.attempt, step.after.state) == (8, 0, State.QUEUED)
    assert {each.after.chunk_most for each in riders_steps(step, riders)} == {8}
    assert {each.after.attempt for each in riders_steps(step, riders)} == {0}


@pytest.mark.parametrize(("ms", "rows"), [(0, 3), (1, 3), (1_000, 16), (7, 7), (None, 2)])
def test_the_time_of_a_chunk_is_shared_out_to_the_last_millisecond(ms: int | None, rows: int) -> None:
    record = Record(remote_id="r", status="COMPLETED", execution_ms=ms)
    shares = [share_of(record, place, rows).execution_ms for place in range(rows)]
    assert shares == [None] * rows if ms is None else sum(each or 0 for each in shares) == ms


def test_of_a_chunk_one_execution_is_judged_and_one_request_counted() -> None:
    lead, rider = at_service(LEAD, RIDER)

    def failed(job: Job) -> Transition:
        outcome = an_outcome(job, FailureClass.FAILED, execution_ms=8)
        return halved(job, FailureClass.FAILED, because="", due_at=AT, at=AT, previous_outcome=outcome)

    of_lead, of_rider = ended_by(failed(lead)), ended_by(replace(failed(rider), is_ridden=True))
    assert of_lead is not None
    assert of_lead.execution is not None
    assert of_rider is not None
    assert of_rider.execution is None
    assert of_lead.took == of_rider.took == DurationTotals.one(8, failed=True)

    lead, rider = together(LEAD, RIDER)
    step = transitions.unanswered(lead, settle_at=AT, reason="no answer", at=AT)
    [ridden] = riders_steps(step, [rider])
    settled = transitions.adopted(step.after, remote_id="r", at=AT)
    counts = StepCounts()
    for each in (step, ridden, settled, *riders_steps(settled, [ridden.after])):
        counted = counted_step(each)
        assert counted is not None
        counts.add(counted)
    assert counts.submissions == {"unanswered": 1}
    assert counts.settled == {"adopted": 1}
