"""Recognising an execution that failed, and what an answer to `/cancel` settles."""

import pytest

from orchestrator.core import job as steps
from orchestrator.core.job import PAID_TWICE, leaves_extra, tallies
from orchestrator.core.lifecycle import State
from orchestrator.core.outcome import Answer, AskAgain, Failure, Record, failure_of, of_cancel
from orchestrator.errors import NotSent, Unanswered
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


@pytest.mark.parametrize("status", [200, 202, 400, 404, 405, 409, 410, 422])
def test_every_answer_that_speaks_of_the_job_settles_its_cancelling(status: int) -> None:
    assert of_cancel(Answer(status=status, body=b"", sent_at=0, answered_at=1)) is None


@pytest.mark.parametrize("status", [301, 401, 403, 408, 429, 500, 503])
def test_every_other_answer_leaves_it_owed(status: int) -> None:
    again = of_cancel(Answer(status=status, body=b"", sent_at=0, answered_at=1, retry_after_s=7.0))
    assert isinstance(again, AskAgain)
    assert again.retry_after_s == 7.0


@pytest.mark.parametrize("error", [NotSent("refused"), Unanswered("cut")])
def test_no_answer_leaves_it_owed(error: NotSent | Unanswered) -> None:
    assert isinstance(of_cancel(error), AskAgain)


@pytest.mark.parametrize(
    ("state", "earlier", "extra", "counted"),
    [
        (State.OUTSTANDING, True, True, (PAID_TWICE,)),
        (State.SUBMITTING, True, True, (PAID_TWICE,)),
        (State.UNCERTAIN, True, True, ("uncertain_adopted",)),
        (State.QUEUED, True, False, ()),
        (State.OUTSTANDING, False, False, ()),
    ],
)
def test_the_result_of_an_earlier_submission_leaves_one_too_many_if_the_latest_is_at_the_service(
    state: State, earlier: bool, extra: bool, counted: tuple[str, ...]
) -> None:
    job = a_job_in(state, submission=EPOCH_AT)
    outcome = an_outcome(job, submission=EPOCH_AT - S if earlier else EPOCH_AT)
    step = steps.completed(job, outcome, reason="webhook", at=EPOCH_AT + S)
    assert (leaves_extra(step), tallies(step)) == (extra, counted)
