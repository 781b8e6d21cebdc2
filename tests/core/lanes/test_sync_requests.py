"""What a held answer means, and when a place for one is worth it."""

import json

import pytest

from orchestrator.core.lanes.sync_requests import (
    SYNC_RETENTION_US,
    SyncEnd,
    is_worth,
    longest_hold_us,
    sync_outcome,
    unfinished_at,
)
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.outcomes import Accepted, Deferred, Rejected, Uncertain
from orchestrator.errors import NotSent, Unanswered
from tests.factories import S


def answered(status: int, body: object = None) -> Answer:
    return Answer(status=status, body=json.dumps(body).encode(), sent_at=0, answered_at=S)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"])
def test_a_record_of_an_end_is_the_end_of_the_job(status: str) -> None:
    found = sync_outcome(answered(200, {"id": "sync-1", "status": status, "output": 1}))
    assert isinstance(found, SyncEnd)
    assert (found.remote_id, found.record.status) == ("sync-1", status)


@pytest.mark.parametrize("status", ["IN_QUEUE", "IN_PROGRESS", "SOMETHING_NEW"])
def test_a_job_that_goes_on_is_accepted(status: str) -> None:
    assert sync_outcome(answered(200, {"id": "sync-1", "status": status})) == Accepted("sync-1")


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (answered(200, {"status": "COMPLETED", "output": 1}), Uncertain),
        (answered(200, {"id": "../x", "status": "COMPLETED"}), Uncertain),
        (answered(200, "<html>"), Uncertain),
        (answered(408), Uncertain),
        (answered(500), Uncertain),
        (answered(504), Uncertain),
        (answered(524), Uncertain),
        (Unanswered("cut"), Uncertain),
        (answered(429), Deferred),
        (answered(503), Deferred),
        (NotSent("refused"), Deferred),
        (answered(400), Rejected),
        (answered(413), Rejected),
        (answered(401), Pointless),
    ],
    ids=str,
)
def test_everything_else_means_what_it_means_of_a_run_but_a_408_is_no_proof(result: object, kind: type) -> None:
    assert isinstance(result, Answer | NotSent | Unanswered)
    assert isinstance(sync_outcome(result), kind)


@pytest.mark.parametrize(("answered_s", "unfinished_s"), [(0.1, 0), (89.9, 0), (90, 90), (95, 90)])
def test_a_job_was_unfinished_as_its_wait_was_over_and_not_later(answered_s: float, unfinished_s: int) -> None:
    assert unfinished_at(7 * S, 7 * S + round(answered_s * S), 90 * S) == (7 + unfinished_s) * S


def test_a_place_is_worth_it_for_sixteen_seconds_at_the_limits_of_the_contract() -> None:
    longest_us = longest_hold_us(CONTRACT_LIMITS[Operation.RUN], CONTRACT_LIMITS[Operation.RUNSYNC])
    assert longest_us == 16 * S
    assert longest_hold_us(Limit(1000, 10), Limit(2000, 10)) is None


@pytest.mark.parametrize(
    ("typical_s", "was", "worth"),
    [
        (None, True, True),
        (None, False, True),
        (16, True, True),
        (17, True, False),
        (16, False, False),
        (12, False, True),
    ],
)
def test_what_is_near_the_bound_changes_nothing(typical_s: int | None, was: bool, worth: bool) -> None:
    typical_us = None if typical_s is None else typical_s * S
    assert is_worth(typical_us, 16 * S, was=was) is worth
    assert is_worth(typical_us, None, was=was)


def test_results_of_sync_requests_are_kept_for_a_minute() -> None:
    assert SYNC_RETENTION_US == 60 * S


def test_only_what_leaves_by_no_shorter_lane_may_be_as_long_as_the_others_take() -> None:
    assert {via: via.body_bytes_max(10) for via in Via} == {
        Via.QUEUE: 10, Via.SYNC: 20, Via.BOTH: 10, Via.OPENAI: 20, Via.HTTP: 30,
        Via.BATCH: 10,
    }  # fmt: skip


def test_each_via_has_its_operations() -> None:
    assert {via: via.operations for via in Via} == {
        Via.QUEUE: (Operation.RUN,),
        Via.SYNC: (Operation.RUNSYNC,),
        Via.BOTH: (Operation.RUN, Operation.RUNSYNC),
        Via.OPENAI: (Operation.OPENAI,),
        Via.HTTP: (Operation.HTTP,),
        Via.BATCH: (Operation.BATCH, Operation.RUN),
    }
    assert Via.BOTH.operation is Operation.RUN, "by which most leave"
    assert {via for via in Via if via.foreseen is not via} == {Via.BATCH}
    assert [via for via in Via if not via.has_queue] == [Via.OPENAI, Via.HTTP]
