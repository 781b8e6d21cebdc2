"""Recognising an execution that failed, and what a result leaves behind."""

import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy, why_owed
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.run_counters import PAID_TWICE, counters
from orchestrator.core.jobs.transition_type import leaves_extra, leaves_in_doubt
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Failure, Record, failure_of
from tests.factories import S, a_job_in, an_outcome
from tests.simulation.clock import EPOCH_AT

FAILED = Record(remote_id="r", status="FAILED", delay_ms=1, execution_ms=2, worker_id="w")


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ({}, True),
        ({"worker_id": None}, True),  # webhooks do not name it
        ({"worker_id": "v"}, False),
        ({"execution_ms": 3}, False),
        ({"delay_ms": None}, False),
        ({"status": "TIMED_OUT"}, False),
    ],
)
def test_an_execution_is_known_by_its_times_and_its_worker(other: dict[str, object], same: bool) -> None:
    told = {"remote_id": "r", "status": "FAILED", "delay_ms": 1, "execution_ms": 2, "worker_id": "w", **other}
    assert failure_of(FAILED).is_of(Record(**told)) is same  # type: ignore[arg-type]


def test_without_any_times_there_is_nothing_to_compare() -> None:
    assert not Failure("FAILED", None, None, None).is_of(Record(remote_id="r", status="FAILED"))


@pytest.mark.parametrize(
    ("state", "earlier", "extra", "counted"),
    [
        (State.OUTSTANDING, True, True, (PAID_TWICE,)),
        (State.SUBMITTING, True, True, (PAID_TWICE,)),
        (State.UNCERTAIN, True, True, ("uncertain_adopted",)),
        (State.QUEUED, True, False, ()),
        (State.FAILED, True, False, ()),
        (State.CANCELLED, True, False, ()),
        (State.OUTSTANDING, False, False, ()),
    ],
)
def test_the_result_of_an_earlier_submission_leaves_one_too_many_if_the_latest_is_at_the_service(
    state: State, earlier: bool, extra: bool, counted: tuple[str, ...]
) -> None:
    job = a_job_in(state, submission=EPOCH_AT)
    outcome = an_outcome(job, submission=EPOCH_AT - S if earlier else EPOCH_AT)
    step = transitions.completed(job, outcome, reason="webhook", at=EPOCH_AT + S)
    assert (leaves_extra(step), counters(step)) == (extra, counted)
    assert why_owed(step) is CancelWhy.EXTRA


def test_the_cancelling_of_a_job_alone_is_told_from_that_of_its_run() -> None:
    job = a_job_in(State.UNCERTAIN)
    owed = [why_owed(transitions.cancelled_on_request(job, at=EPOCH_AT, alone=alone)) for alone in (False, True)]
    assert owed == [CancelWhy.ASKED, CancelWhy.CHOSEN]


def test_a_result_that_comes_while_its_submission_is_repeated_leaves_that_repetition_over() -> None:
    """It counts as paid twice for nobody: the result may be the repetition's own."""
    job = a_job_in(State.SUBMITTING, retry_until=EPOCH_AT + S)
    step = transitions.completed(job, an_outcome(job), reason="webhook", at=EPOCH_AT + S)
    assert (leaves_extra(step), counters(step)) == (True, ())


@pytest.mark.parametrize(("remote_id", "counted"), [(None, ("uncertain_adopted",)), ("remote-1", ())])
def test_a_result_that_names_the_submission_of_a_job_that_was_given_up_has_adopted_it(
    remote_id: str | None, counted: tuple[str, ...]
) -> None:
    job = a_job_in(State.FAILED, remote_id=remote_id)
    assert counters(transitions.completed(job, an_outcome(job), reason="webhook", at=EPOCH_AT + S)) == counted


@pytest.mark.parametrize(
    ("state", "doubt"), [(State.UNCERTAIN, True), (State.QUEUED, False), (State.OUTSTANDING, False)]
)
def test_a_cancelled_job_leaves_a_submission_in_doubt_if_that_was_uncertain(state: State, doubt: bool) -> None:
    job = a_job_in(state)
    outcome = an_outcome(job, FailureClass.CANCELLED)
    assert leaves_in_doubt(transitions.cancelled(job, outcome, reason="asked for", at=EPOCH_AT)) is doubt


@pytest.mark.parametrize(("trouble", "doubt"), [(FailureClass.UNCERTAIN, True), (FailureClass.LOST, False)])
def test_a_job_that_is_sent_anew_as_nothing_is_heard_of_it_leaves_a_submission_in_doubt(
    trouble: FailureClass, doubt: bool
) -> None:
    job = a_job_in(State.OUTSTANDING)
    step = transitions.retried(job, trouble, due_at=EPOCH_AT, retry_until=None, reason="no news", at=EPOCH_AT)
    assert leaves_in_doubt(step) is doubt
