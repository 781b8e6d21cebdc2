"""A run whose jobs pods execute: asked for once it is sent, taking part as they are ready, and ended with it.

Time is that of `tests.simulation`.
"""

from functools import partial
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.pods.pod_lease import LeaseEnd, PodLease
from orchestrator.core.pods.pod_template import WhenDone
from orchestrator.errors import StoppedError, UsageError
from orchestrator.ledger import read_ledger
from tests.engine.pods.workplace import TEMPLATE, Workplace

STOPS = replace(TEMPLATE, when_done=WhenDone.STOP)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def leases(place: Workplace) -> list[PodLease]:
    async def read() -> list[PodLease]:
        async with read_ledger(place.folder / "db", clock=place.clock) as ledger:
            return await ledger.runs.pod_leases.all()

    return anyio.run(read)


def test_pods_are_made_for_the_run_do_its_jobs_and_are_gone_after_it(place: Workplace) -> None:
    summary = place.world(place.carry_out)
    assert summary.jobs["succeeded"] == 40
    assert set(place.executed.values()) == {1}
    assert place.pods == {}
    assert "in: asks for 2 pods of vllm" in place.console.lines
    assert sum(line.endswith("is ready") for line in place.console.lines) == 2


def test_pods_that_are_stopped_are_started_again_for_the_next_run(place: Workplace) -> None:
    async def twice() -> None:
        await place.carry_out(6, pod_template=STOPS)
        assert list(place.pods.values()) == ["EXITED"] * 2
        await place.carry_out(6, name="other", pod_template=STOPS)

    place.world(twice)
    found = leases(place)
    assert list(place.pods.values()) == ["EXITED"] * 2
    assert [lease.is_new for lease in found] == [True, True, False, False]
    assert {lease.pod for lease in found[:2]} == {lease.pod for lease in found[2:]}
    assert all(lease.end is LeaseEnd.DONE and lease.cost(place.clock.now()) > 0 for lease in found)


def test_no_more_pods_are_made_than_there_are_jobs(place: Workplace) -> None:
    place.world(lambda: place.carry_out(1, pods=5))
    assert "in: asks for 1 pod of vllm" in place.console.lines


@pytest.mark.slow
def test_one_that_dies_is_replaced_and_its_jobs_go_on_elsewhere(place: Workplace) -> None:
    place.execution_s = 20.0

    async def dies() -> None:
        async with anyio.create_task_group() as group:

            async def kill() -> None:
                while len(place.executed) < 5:  # noqa: ASYNC110  nobody tells of it
                    await anyio.sleep(0.5)
                place.fail(place.running[0])

            group.start_soon(kill)
            summary = await place.carry_out(60)
        assert summary.jobs["succeeded"] == 60

    place.world(dies)
    found = leases(place)
    assert place.pods == {}
    assert [lease.end for lease in found] == [LeaseEnd.LOST, LeaseEnd.DONE, LeaseEnd.DONE]
    assert any("the pod is ERROR" in line for line in place.console.lines)
    assert set(place.executed.values()) <= {1, 2}


def test_one_whose_server_never_answers_is_given_up_and_paid_no_longer(tmp_path: Path) -> None:
    place = Workplace(tmp_path, booting_s=10_000)

    async def waits() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(
                lambda: place.carry_out(3, stop=stop, pod_template=replace(TEMPLATE, ready_within_us=60_000_000))
            )
            await anyio.sleep(75)
            stop.set()

    place.world(waits)
    found = leases(place)
    assert [lease.end for lease in found[:2]] == [LeaseEnd.LATE, LeaseEnd.LATE]
    assert place.pods == {}


def test_pods_are_gone_once_people_interrupt_the_run(place: Workplace) -> None:
    async def interrupted() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: place.carry_out(900, stop=stop))
            await anyio.sleep(13)
            assert len(place.running) == 2
            stop.set()

    place.world(interrupted)
    assert place.pods == {}


@pytest.mark.slow
def test_pods_are_gone_once_a_brake_holds_the_run(place: Workplace) -> None:
    """Two pods cost a dollar an hour: two cents are spent after 72 seconds."""
    place.execution_s = 20.0
    with pytest.raises(StoppedError) as stopped:
        place.world(lambda: place.carry_out(5_000, budget=0.02))
    assert "budget" in stopped.value.message
    assert place.pods == {}
    assert 300 < sum(place.executed.values()) < 1_500


def test_a_template_that_there_is_not_is_told_before_anything_is_asked_for(place: Workplace) -> None:
    for template, told in (
        (replace(TEMPLATE, template="nobody"), "there is no template nobody"),
        (replace(TEMPLATE, port=9000), "has no HTTP port 9000: its ports are 8000/http, 22/tcp"),
    ):
        with pytest.raises(UsageError, match=told):
            place.world(partial(place.carry_out, 3, pod_template=template))
    assert place.pods == {}


def test_where_there_are_no_machines_it_is_asked_again_at_growing_pauses(tmp_path: Path) -> None:
    place = Workplace(tmp_path, capacity=0)

    async def waits() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: place.carry_out(3, stop=stop, pods=1))
            await anyio.sleep(200)
            stop.set()

    place.world(waits)
    found = leases(place)
    assert 3 <= len(found) <= 5
    assert {lease.end for lease in found} == {LeaseEnd.REFUSED}
    assert all("instances" in lease.detail for lease in found)
    assert {lease.cost(place.clock.now()) for lease in found} == {0.0}
