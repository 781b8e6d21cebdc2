"""Scaling: contract, endpoint fields `workersMin`, `workersMax`, `idleTimeout`; policy `lowPriority`."""

import random
from functools import partial
from typing import Any

import pytest

from orchestrator.emulator.contract.ids_and_times import resource_id
from orchestrator.emulator.jobs.fleet import Fleet
from orchestrator.emulator.jobs.jobs import ServiceJob
from orchestrator.emulator.jobs.scaling_rules import Scaler, Scaling, fixed
from orchestrator.errors import UsageError
from orchestrator.units import SECOND_US

T0 = 1_000 * SECOND_US


def fleet(*, announced: bool = False, **scaling: Any) -> Fleet:
    new_id = partial(resource_id, random.Random(1))
    return Fleet(Scaling(**scaling), new_id=new_id, announced=announced, guest_us=80 * SECOND_US)


def waiting(*queued_at: int) -> dict[str, ServiceJob]:
    jobs = [
        ServiceJob(
            id=str(n),
            endpoint="ep",
            input=b"{}",
            webhook=None,
            s3_config=None,
            execution_timeout_us=1,
            expires_at=1,
            queued_at=at,
            retention_us=1,
        )
        for n, at in enumerate(queued_at)
    ]
    return {job.id: job for job in jobs}


def test_the_minimum_is_started_at_once_and_kept() -> None:
    subject = fleet(workers_min=2, idle_timeout_s=1)
    assert subject.next_due({}, 0) == 0
    assert len(subject.adjust({}, 0, T0).started) == 2
    assert subject.adjust({}, 0, T0 + 100 * SECOND_US).stopped == ()
    assert subject.next_due({}, 0) is None
    assert subject.counts().idle == 2


def test_by_queue_delay_the_first_job_starts_a_worker_and_each_further_one_after_its_wait() -> None:
    """Contract, A job stays queued while there is no worker."""
    subject = fleet(workers_max=2, scaler_value=4, idle_timeout_s=600)
    queue = waiting(T0, T0, T0 + SECOND_US)
    assert subject.next_due(queue, 0) == 0
    assert len(subject.adjust(queue, 0, T0).started) == 1
    assert subject.next_due(queue, 0) == T0 + 4 * SECOND_US
    assert subject.adjust(queue, 0, T0 + 4 * SECOND_US - 1).started == ()
    assert len(subject.adjust(queue, 0, T0 + 4 * SECOND_US).started) == 1
    assert subject.adjust(queue, 0, T0 + 60 * SECOND_US).started == ()


def test_jobs_that_workers_are_being_started_for_start_no_more() -> None:
    subject = fleet(workers_max=3, scaler_value=4, cold_start_s=30)
    queue = waiting(T0, T0)
    subject.adjust(queue, 0, T0)
    assert len(subject.adjust(queue, 0, T0 + 5 * SECOND_US).started) == 1
    assert subject.adjust(queue, 0, T0 + 6 * SECOND_US).started == ()
    assert subject.next_due(queue, 0) == T0 + 30 * SECOND_US


def test_by_request_count_there_is_a_worker_for_so_many_jobs() -> None:
    subject = fleet(workers_max=3, scaler=Scaler.REQUEST_COUNT, scaler_value=2)
    queue = waiting(T0, T0, T0)
    assert subject.next_due(queue, 0) == 0
    assert len(subject.adjust(queue, 0, T0).started) == 2
    assert subject.next_due(queue, 0) is None
    assert len(subject.adjust(queue, 10, T0).started) == 1


def test_a_cold_start_takes_its_time() -> None:
    subject = fleet(workers_min=1, cold_start_s=10)
    subject.adjust({}, 0, T0)
    assert (subject.counts().initializing, subject.running(), subject.reserve()) == (1, 0, None)
    assert subject.next_due({}, 0) == T0 + 10 * SECOND_US
    assert subject.adjust({}, 0, T0 + 10 * SECOND_US).readied
    assert (subject.counts().ready, subject.running()) == (1, 1)
    assert subject.reserve() is not None


def test_an_idle_worker_above_the_minimum_is_stopped_after_the_time_out() -> None:
    subject = fleet(workers_max=1, idle_timeout_s=5)
    (worker_id,) = subject.adjust(waiting(T0), 0, T0).started
    assert subject.reserve() == worker_id
    subject.began(worker_id)
    assert subject.adjust({}, 1, T0 + 60 * SECOND_US).stopped == ()
    subject.ended(worker_id, T0 + 60 * SECOND_US)
    subject.give_back(worker_id, T0 + 60 * SECOND_US)
    assert subject.next_due({}, 0) == T0 + 65 * SECOND_US
    assert subject.adjust({}, 0, T0 + 65 * SECOND_US).stopped == (worker_id,)
    assert subject.counts().idle == 0


def test_fewer_workers_than_before_stop_those_that_are_free() -> None:
    subject = fleet(workers_min=3)
    subject.adjust({}, 0, T0)
    subject.scale(fixed(1))
    assert subject.next_due({}, 0) == 0
    assert len(subject.adjust({}, 0, T0).stopped) == 2


def test_fewer_workers_than_before_stop_first_those_that_are_not_up_yet_the_latest_first() -> None:
    subject = fleet(announced=True, workers_min=3)
    first, second, third = subject.adjust({}, 0, T0).started
    subject.heard_from(first, T0)
    subject.scale(Scaling(workers_max=2))
    assert subject.next_due({}, 0) == 0
    assert subject.adjust({}, 0, T0).stopped == (third,)
    subject.scale(fixed(0))
    assert subject.adjust({}, 0, T0).stopped == (second, first)
    assert subject.next_due({}, 0) is None


def test_a_worker_that_announces_itself_is_ready_when_it_is_seen() -> None:
    subject = fleet(announced=True, workers_min=1)
    (worker_id,) = subject.adjust({}, 0, T0).started
    assert not subject.views()[0].is_ready
    subject.heard_from(worker_id, T0 + SECOND_US)
    assert (subject.counts().ready, subject.own()) == (1, (worker_id,))


def test_a_worker_that_crashes_is_replaced_after_a_pause_that_grows() -> None:
    subject = fleet(announced=True, workers_min=1)
    now = T0
    for pause in (1, 2, 4):
        (worker_id,) = subject.adjust({}, 0, now).started
        subject.crashed(worker_id, now)
        assert subject.counts().unhealthy == 1
        assert subject.adjust({}, 0, now).started == ()
        assert subject.next_due({}, 0) == now + pause * SECOND_US
        now += pause * SECOND_US


def test_a_guest_counts_until_nothing_is_heard_of_it() -> None:
    subject = fleet(announced=True, workers_max=0)
    subject.adjust({}, 0, T0)
    subject.heard_from("guest", T0)
    subject.began("guest")
    assert (subject.knows("guest"), subject.counts().running) == (True, 1)
    assert subject.next_due({}, 0) == T0 + 80 * SECOND_US
    subject.adjust({}, 0, T0 + 80 * SECOND_US)
    assert (subject.knows("guest"), subject.counts().running) == (False, 1)
    subject.ended("guest", T0)
    assert subject.counts().running == 0


def test_a_lost_worker_is_replaced_under_another_name() -> None:
    subject = fleet(workers_min=1)
    (worker_id,) = subject.adjust({}, 0, T0).started
    replaced = subject.replace(worker_id, T0)
    assert (subject.knows(worker_id), subject.knows(replaced)) == (False, True)


@pytest.mark.parametrize("wrong", [{"workers_min": 4}, {"workers_min": -1}, {"scaler_value": 0}, {"cold_start_s": -1}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Scaling(**wrong)


def test_workers_without_a_machine_are_throttled_until_there_is_one() -> None:
    subject = fleet(workers_min=2, machines=1)
    assert subject.next_due({}, 0) == 0
    assert len(subject.adjust({}, 0, T0).started) == 1
    assert (subject.counts().idle, subject.counts().throttled, subject.next_due({}, 0)) == (1, 1, None)
    subject.scale(Scaling(workers_min=2))
    assert len(subject.adjust({}, 0, T0).started) == 1
    assert subject.counts().throttled == 0


@pytest.mark.parametrize("scaler", Scaler)
def test_a_job_that_finds_no_machine_for_a_worker_waits_and_nothing_is_due(scaler: Scaler) -> None:
    subject = fleet(workers_max=3, machines=0, scaler=scaler)
    assert subject.adjust(waiting(T0), 0, T0).started == ()
    assert (subject.counts().initializing, subject.counts().throttled) == (0, 1)
    assert subject.next_due(waiting(T0), 0) is None


def test_a_broken_worker_ends_when_it_should_be_ready_and_the_next_one_waits_longer() -> None:
    subject = fleet(workers_min=1, cold_start_s=10, is_broken=True)
    subject.adjust({}, 0, T0)
    assert subject.counts().unhealthy == 0
    assert subject.adjust({}, 0, T0 + 10 * SECOND_US).started == ()
    assert (subject.counts().unhealthy, subject.reserve()) == (1, None)
    assert subject.next_due({}, 0) == T0 + 11 * SECOND_US
    assert len(subject.adjust({}, 0, T0 + 11 * SECOND_US).started) == 1
    subject.adjust({}, 0, T0 + 21 * SECOND_US)
    assert subject.next_due({}, 0) == T0 + 23 * SECOND_US
    subject.scale(Scaling(workers_min=1))
    subject.adjust({}, 0, T0 + 23 * SECOND_US)
    assert (subject.counts().unhealthy, subject.counts().ready) == (0, 1)
