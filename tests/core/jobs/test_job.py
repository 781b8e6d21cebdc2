"""The steps of a job: what each constructor changes, and what it leaves alone."""

from typing import Any

import msgspec
import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Escalation, Job, Outcome, Overrides, Unsaved, is_terminal, outcome_from
from orchestrator.core.jobs.lifecycle import TRANSITIONS, IllegalStep, State, is_legal
from orchestrator.core.jobs.reasons import Detail, Reason, ReasonCode, doubt_of_retry, reason_text
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS, NO_NEWS, RETRIED_EXECUTIONS, counters
from orchestrator.core.jobs.transitions import RUN_CANCELLED, RUN_CANCELLED_UNCERTAIN
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from tests.factories import STEPS, TTL_US, S, a_job, a_job_in, an_outcome
from tests.simulation.clock import EPOCH_AT

AT = EPOCH_AT + 100 * S


def changes(before: Job, after: Job) -> dict[str, Any]:
    """The fields in which `after` differs, with their new values."""
    old, new = msgspec.structs.asdict(before), msgspec.structs.asdict(after)
    return {name: value for name, value in new.items() if value != old[name]}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("state", State)
def test_each_step_asks_the_table_for_the_next_state(name: str, state: State) -> None:
    event, make = STEPS[name]
    job = a_job_in(state)
    if not is_legal(state, event):
        with pytest.raises(IllegalStep):
            make(job, AT)
        return
    step = make(job, AT)

    assert step.before == job
    assert step.after.state is TRANSITIONS[state][event]
    assert (step.event, step.at) == (event, AT)
    assert step.reason


@pytest.mark.parametrize("name", STEPS)
def test_no_step_changes_who_the_job_is(name: str) -> None:
    event, make = STEPS[name]
    for state in State:
        if is_legal(state, event):
            after = make(a_job_in(state, id=7, run=8, endpoint=9), AT).after
            assert (after.id, after.run, after.endpoint) == (7, 8, 9)


def test_a_claim_opens_a_submission_and_costs_an_attempt() -> None:
    job = a_job(attempt=2, first_attempt=1, submission=5, remote_id="old", retry_until=AT, lost=1, deferrals=3)

    step = transitions.claimed(job, submission=6, ttl_us=TTL_US, at=AT)

    assert changes(job, step.after) == {
        "state": State.SUBMITTING,
        "submission": 6,
        "attempt": 3,
        "first_attempt": 3,
        "remote_id": None,
        "retry_until": None,
        "sent_at": AT,
        "ttl_at": AT + TTL_US,
        "unfinished_at": AT,
    }


def test_a_claim_for_retry_keeps_the_submission_and_costs_an_attempt() -> None:
    job = a_job(attempt=1, first_attempt=1, submission=5, remote_id="r", retry_until=AT + S)

    step = transitions.claimed_for_retry(job, at=AT)

    assert changes(job, step.after) == {"state": State.SUBMITTING, "attempt": 2, "unfinished_at": AT}
    assert step.after.by_retry


def test_an_accepted_submission_lives_its_ttl_from_when_it_was_really_sent() -> None:
    job = a_job_in(State.SUBMITTING, deferrals=2, due_at=5)

    step = transitions.accepted(job, remote_id="r", sent_at=EPOCH_AT + 3 * S, at=AT)

    assert changes(job, step.after) == {
        "state": State.OUTSTANDING,
        "remote_id": "r",
        "sent_at": EPOCH_AT + 3 * S,
        "ttl_at": EPOCH_AT + 3 * S + TTL_US,
        "unfinished_at": EPOCH_AT + 3 * S,
        "deferrals": 0,
        "due_at": 0,
    }


def test_an_accepted_submission_lives_for_as_long_as_is_known_by_then() -> None:
    step = transitions.accepted(a_job_in(State.SUBMITTING), remote_id="r", sent_at=AT, at=AT + S, ttl_us=60 * S)

    assert step.after.ttl_at == AT + 60 * S


@pytest.mark.parametrize("unknown", ["ttl_at", "sent_at"])
def test_an_accepted_submission_of_unknown_ttl_gets_none(unknown: str) -> None:
    job = a_job_in(State.SUBMITTING, **{unknown: None})

    assert transitions.accepted(job, remote_id="r", sent_at=AT, at=AT).after.ttl_at is None


def test_a_retry_that_is_refused_is_outstanding_and_says_nothing_of_when_the_job_was_unfinished() -> None:
    job = a_job_in(State.SUBMITTING, remote_id="r", retry_until=AT, attempt=2, deferrals=1, due_at=4)

    step = transitions.refused_for_retry(job, at=AT)

    assert step.reason is doubt_of_retry(step.reason) is ReasonCode.RETRY_REFUSED
    changed = {"state": State.OUTSTANDING, "retry_until": None, "deferrals": 0, "due_at": 0}
    assert changes(job, step.after) == changed


@pytest.mark.parametrize(("answered", "reason"), [(True, ReasonCode.RETRY), (False, ReasonCode.RETRY_UNANSWERED)])
def test_a_retry_is_outstanding_whether_it_was_answered_or_not(answered: bool, reason: Reason) -> None:
    job = a_job_in(State.SUBMITTING, remote_id="r", retry_until=AT, attempt=2, deferrals=1, due_at=4)

    step = transitions.accepted_for_retry(job, sent_at=AT - S, at=AT, answered=answered)

    assert step.reason == reason
    assert changes(job, step.after) == {
        "state": State.OUTSTANDING,
        "retry_until": None,
        "unfinished_at": AT - S,
        "deferrals": 0,
        "due_at": 0,
    }


def test_an_unanswered_submission_is_to_be_settled_later() -> None:
    job = a_job_in(State.SUBMITTING, deferrals=1)

    step = transitions.unanswered(job, settle_at=AT + S, reason="cut", at=AT)

    assert changes(job, step.after) == {"state": State.UNCERTAIN, "uncertain": 1, "due_at": AT + S, "deferrals": 0}
    assert step.trouble is FailureClass.UNCERTAIN


def test_a_submission_that_our_own_end_left_unanswered_costs_no_try() -> None:
    job = a_job_in(State.SUBMITTING, deferrals=1, uncertain=2)

    step = transitions.left_unanswered(job, settle_at=AT + S, reason="killed", at=AT)

    assert changes(job, step.after) == {"state": State.UNCERTAIN, "due_at": AT + S, "deferrals": 0}
    assert step.trouble is FailureClass.UNCERTAIN


def test_a_deferral_gives_the_attempt_back() -> None:
    job = a_job_in(State.SUBMITTING)

    step = transitions.deferred(job, due_at=AT + S, reason="429", at=AT, trouble=FailureClass.THROTTLED)

    assert changes(job, step.after) == {"state": State.QUEUED, "attempt": 0, "deferrals": 1, "due_at": AT + S}


def test_an_interruption_is_no_deferral_and_costs_nothing_either() -> None:
    job = a_job_in(State.SUBMITTING, deferrals=4, retry_until=AT)

    step = transitions.deferred(job, due_at=AT, reason="not sent", at=AT, retry_until=AT + 9 * S)

    assert step.trouble is None
    assert changes(job, step.after) == {"state": State.QUEUED, "attempt": 0, "due_at": AT, "retry_until": AT + 9 * S}


def test_an_adopted_submission_is_outstanding_under_the_id_that_the_webhook_told() -> None:
    job = a_job_in(State.UNCERTAIN, due_at=AT)

    assert changes(job, transitions.adopted(job, remote_id="r", at=AT).after) == {
        "state": State.OUTSTANDING,
        "remote_id": "r",
        "due_at": 0,
    }


COUNTERS = {
    FailureClass.FAILED: "failures",
    FailureClass.TIMED_OUT: "failures",
    FailureClass.INVALID_OUTPUT: "failures",
    FailureClass.LOST: "lost",
    FailureClass.EXPIRED: "expired",
}


@pytest.mark.parametrize("trouble", FailureClass)
def test_each_trouble_raises_its_own_counter_by_one_or_none(trouble: FailureClass) -> None:
    job = a_job_in(State.OUTSTANDING, failures=1, lost=1, uncertain=1, expired=1)
    counted = {COUNTERS[trouble]: 2} if trouble in COUNTERS else {}

    again = transitions.retried(job, trouble, due_at=AT, retry_until=AT + S, reason="again", at=AT)
    over = transitions.abandoned(job, an_outcome(job, trouble), reason="over", at=AT)

    assert changes(job, again.after) == {"state": State.QUEUED, "due_at": AT, "retry_until": AT + S, **counted}
    assert changes(job, over.after) == {"state": State.FAILED, **counted}
    assert again.trouble is over.trouble is trouble


def test_a_completed_job_waits_for_nothing_any_more() -> None:
    job = a_job(retry_until=AT, due_at=AT, submission=1)

    step = transitions.completed(job, an_outcome(job), reason="webhook", at=AT)

    assert changes(job, step.after) == {"state": State.SUCCEEDED, "due_at": 0, "retry_until": None}
    assert step.outcome == an_outcome(job)
    assert step.trouble is None


def test_a_rejected_submission_gives_its_attempt_back() -> None:
    job = a_job_in(State.SUBMITTING)

    assert transitions.abandoned(job, an_outcome(job, FailureClass.REJECTED), reason="400", at=AT).after.attempt == 0


@pytest.mark.parametrize(
    ("state", "trouble"), [(State.OUTSTANDING, FailureClass.REJECTED), (State.SUBMITTING, FailureClass.FAILED)]
)
def test_what_may_have_been_executed_stays_counted(state: State, trouble: FailureClass) -> None:
    job = a_job_in(state)

    assert transitions.abandoned(job, an_outcome(job, trouble), reason="over", at=AT).after.attempt == 1


def test_an_abandoned_job_whose_outcome_names_no_trouble_has_failed() -> None:
    job = a_job_in(State.OUTSTANDING)

    assert transitions.abandoned(job, an_outcome(job), reason="over", at=AT).trouble is FailureClass.FAILED


def test_a_cancelled_job_waits_for_nothing_any_more() -> None:
    job = a_job(due_at=AT, retry_until=AT)

    step = transitions.cancelled(job, an_outcome(job, FailureClass.CANCELLED), reason="asked for", at=AT)

    assert changes(job, step.after) == {"state": State.CANCELLED, "due_at": 0, "retry_until": None}
    assert step.trouble is FailureClass.CANCELLED


def test_a_reopened_job_has_fresh_counters_and_remembers_what_was_paid() -> None:
    job = a_job_in(State.FAILED, attempt=3, failures=3, lost=1, uncertain=1, expired=1, deferrals=1, due_at=3)

    after = transitions.reopened(job, at=AT).after

    assert (after.failures, after.lost, after.uncertain, after.expired, after.deferrals, after.due_at) == (0,) * 6
    assert (after.attempt, after.submission) == (3, job.submission)


def test_a_job_that_is_reopened_has_the_settings_that_are_asked_for_then_and_no_others() -> None:
    job = a_job_in(State.FAILED)
    own = Overrides(policy=b'{"ttl":10000}', attempts_max=1, description="TTL 10 s and 1 attempt")

    step = transitions.reopened(job, at=AT, overrides=own)
    assert (step.after.policy, step.after.attempts_max) == (b'{"ttl":10000}', 1)
    assert reason_text(step.reason, step.detail) == "asked for, with TTL 10 s and 1 attempt"
    again = transitions.reopened(msgspec.structs.replace(step.after, state=State.FAILED), at=AT)
    assert (again.after.policy, again.after.attempts_max, again.detail) == (None, None, None)


def test_a_job_that_is_reopened_goes_where_that_is_asked_and_else_stays() -> None:
    job = a_job_in(State.FAILED)
    there = transitions.reopened(job, at=AT, overrides=Overrides(endpoint=job.endpoint + 1)).after
    assert there.endpoint == job.endpoint + 1
    assert (
        transitions.reopened(msgspec.structs.replace(there, state=State.FAILED), at=AT).after.endpoint == there.endpoint
    )


def test_the_first_execution_is_told_from_the_one_after_a_retry() -> None:
    first = a_job_in(State.OUTSTANDING)
    queued = transitions.retried(
        first, FailureClass.FAILED, due_at=AT, retry_until=AT + S, reason="FAILED", at=AT
    ).after
    second = transitions.claimed_for_retry(queued, at=AT).after

    assert first.is_first_execution
    assert queued.is_first_execution
    assert not second.is_first_execution
    assert not first.by_retry


def test_a_deferred_submission_that_ran_all_the_same_was_executed_once() -> None:
    job = a_job_in(State.SUBMITTING)

    assert transitions.deferred(
        job, due_at=AT, reason="503", at=AT, trouble=FailureClass.SERVER
    ).after.is_first_execution


def test_the_tallies_of_uncertain_submissions_count_what_became_of_them() -> None:
    sent, uncertain = a_job_in(State.SUBMITTING), a_job_in(State.UNCERTAIN)

    assert counters(transitions.unanswered(sent, settle_at=AT, reason="cut", at=AT)) == ("uncertain_seen",)
    assert counters(transitions.adopted(uncertain, remote_id="r", at=AT)) == ("uncertain_adopted",)
    assert counters(transitions.completed(uncertain, an_outcome(uncertain), reason="hook", at=AT)) == (
        "uncertain_adopted",
    )
    assert counters(
        transitions.retried(uncertain, FailureClass.UNCERTAIN, due_at=AT, retry_until=None, reason="grace", at=AT)
    ) == ("uncertain_resubmitted",)
    assert counters(transitions.adopted(sent, remote_id="r", at=AT)) == ()
    assert counters(transitions.accepted(sent, remote_id="r", sent_at=AT, at=AT)) == ()
    assert counters(transitions.deferred(sent, due_at=AT, reason="503", at=AT, trouble=FailureClass.SERVER)) == ()


@pytest.mark.parametrize("trouble", [FailureClass.LOST, FailureClass.EXPIRED])
def test_the_tallies_count_lost_and_expired_submissions_repeated_or_not(trouble: FailureClass) -> None:
    job = a_job_in(State.OUTSTANDING)

    again = transitions.retried(job, trouble, due_at=AT, retry_until=None, reason="404", at=AT)
    over = transitions.abandoned(job, an_outcome(job, trouble), reason="404", at=AT)

    assert counters(again) == counters(over) == (trouble.value,)


@pytest.mark.parametrize("state", State)
def test_a_job_is_ended_in_an_end(state: State) -> None:
    assert is_terminal(a_job_in(state)) is (state in {State.SUCCEEDED, State.FAILED, State.CANCELLED})


RECORD = Record(remote_id="r2", status="COMPLETED", output=b"1", delay_ms=3, execution_ms=4)


def test_the_outcome_of_a_result_has_its_output_and_times() -> None:
    job = a_job_in(State.OUTSTANDING)

    outcome = outcome_from(job, RECORD, trouble=None, message=None, margin_us=5)

    assert outcome == Outcome(
        submission=job.submission,
        remote_id="r2",
        status="COMPLETED",
        output=b"1",
        delay_ms=3,
        execution_ms=4,
        margin_us=5,
    )


def test_the_outcome_of_a_failure_has_no_output_and_falls_back_on_the_id_that_the_job_has() -> None:
    job = a_job_in(State.OUTSTANDING)
    record = msgspec.structs.replace(RECORD, remote_id=None, status="")

    outcome = outcome_from(job, record, trouble=FailureClass.FAILED, message="no", margin_us=None)

    assert (outcome.remote_id, outcome.status, outcome.output) == ("remote-1", None, None)
    assert (outcome.trouble, outcome.message) == (FailureClass.FAILED, "no")


@pytest.mark.parametrize(
    ("state", "message"), [(State.QUEUED, RUN_CANCELLED), (State.UNCERTAIN, RUN_CANCELLED_UNCERTAIN)]
)
def test_a_job_of_a_cancelled_run_says_whether_it_may_have_been_paid(state: State, message: str) -> None:
    alone = transitions.cancelled_on_request(a_job_in(state), at=AT, alone=True).outcome
    assert alone is not None
    assert (alone.message or "").startswith("it was cancelled on request")

    step = transitions.cancelled_on_request(a_job_in(state), at=AT)

    assert (step.after.state, step.trouble) == (State.CANCELLED, FailureClass.CANCELLED)
    assert step.outcome is not None
    assert step.outcome.message == message


def test_an_answer_with_the_id_of_another_job_is_counted_as_no_news_too() -> None:
    sent = a_job_in(State.SUBMITTING)
    step = transitions.unanswered(sent, settle_at=AT, reason=ReasonCode.REPEATED_ID, at=AT)
    assert counters(step) == ("uncertain_seen", NO_NEWS)


@pytest.mark.parametrize("trouble", [FailureClass.FAILED, FailureClass.TIMED_OUT, FailureClass.INVALID_OUTPUT])
def test_the_tallies_count_failed_executions_repeated_or_not(trouble: FailureClass) -> None:
    job = a_job_in(State.OUTSTANDING)

    again = transitions.retried(job, trouble, due_at=AT, retry_until=None, reason="told", at=AT)
    over = transitions.abandoned(job, an_outcome(job, trouble), reason="told", at=AT)

    assert counters(again) == (FAILED_EXECUTIONS, RETRIED_EXECUTIONS)
    assert counters(over) == (FAILED_EXECUTIONS,)


def test_a_retry_may_give_the_job_what_it_had_not_before() -> None:
    job = a_job_in(State.OUTSTANDING)
    given = Escalation(endpoint=7, escalated=b"{}", description="endpoint big")
    step = transitions.retried(
        job, FailureClass.TIMED_OUT, due_at=1, retry_until=None, reason="status", at=EPOCH_AT, escalation=given
    )
    assert (step.after.endpoint, step.after.escalated, step.after.failures) == (7, b"{}", 1)
    assert (step.reason, step.detail) == ("status", Detail(settings="endpoint big"))
    plain = transitions.retried(job, FailureClass.TIMED_OUT, due_at=1, retry_until=None, reason="status", at=EPOCH_AT)
    assert (plain.after.endpoint, plain.after.escalated) == (job.endpoint, None)
    assert plain.detail is None
    ended = transitions.abandoned(
        step.after, an_outcome(step.after, FailureClass.REJECTED), reason="no", at=EPOCH_AT
    ).after
    again = transitions.reopened(ended, at=EPOCH_AT)
    assert again.after.escalated is None


def test_a_member_that_is_no_file_is_tried_again_unless_nothing_can_be_made_of_it() -> None:
    assert [each for each in Unsaved if not each.is_tried_again] == [Unsaved.MEMBER]
