"""What the parts do while the line is full: they bring it no more than it takes."""

import hashlib
from pathlib import Path

import anyio
import pytest
from anyio.abc import TaskGroup

from orchestrator.client.http.transfer_slots import TransferSlots
from orchestrator.core.limits.transfer_slots import AT_ONCE, EPOCH_US, STEADY_EPOCHS
from orchestrator.engine.endpoint.claimed_jobs import CLAIMED_BYTES_MAX
from orchestrator.formats.input.rows import Row
from tests.engine.process import Process, process
from tests.engine.rows import rows
from tests.engine.scripted import COMPLETED, Reply, Scripted, numbered

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

MIB = 1024 * 1024


def large_rows(number: int, size: int) -> list[Row]:
    """Rows with inputs of `size` bytes; their zeros need no room on the disk."""
    return [
        Row(
            line=n,
            custom_id=f"job-{n}",
            derived=False,
            input=b'{"n":%d,"x":"%s"}' % (n, b"0" * size),
            digest=hashlib.sha256(b"%d" % n).digest(),
            policy=None,
            s3_config=None,
        )
        for n in range(1, number + 1)
    ]


async def fill(places: TransferSlots, tasks: TaskGroup) -> anyio.Event:
    """Takes all places, and has somebody wait for one; they are left when the event is set."""
    leave = anyio.Event()

    async def one() -> None:
        place = await places.enter(MIB)
        await leave.wait()
        place.leave()

    for _ in range(AT_ONCE + 1):
        tasks.start_soon(one)
    await anyio.wait_all_tasks_blocked()
    assert places.waiting == 1
    return leave


async def test_the_inputs_of_jobs_that_are_claimed_or_in_flight_are_bounded_in_memory(tmp_path: Path) -> None:
    size = 10 * MIB
    fitting = CLAIMED_BYTES_MAX // size + 1
    service = Scripted(run=Reply(body=b'{"id":"r"}', after_s=10.0))
    async with process(tmp_path / "db", service, jobs=large_rows(fitting + 2, size)) as p:
        await p.start("dispatcher")
        await anyio.sleep(9)
        assert len(service.of("run")) == fitting
        assert (await p.counts())["queued"] == 2
        await anyio.sleep(10)
        assert len(service.of("run")) == fitting + 2


async def test_nothing_is_claimed_while_large_inputs_wait_for_the_line(tmp_path: Path) -> None:
    service = Scripted(run=numbered())
    async with process(tmp_path / "db", service, jobs=5) as p, anyio.create_task_group() as tasks:
        leave = await fill(p.api.up, tasks)
        await p.start("dispatcher")
        await anyio.sleep(100)
        assert (service.of("run"), await p.story()) == ([], [])
        leave.set()
        await anyio.sleep(5)
        assert len(service.of("run")) == 5


async def test_what_was_claimed_waits_for_the_line_and_is_not_given_back(tmp_path: Path) -> None:
    service = Scripted(run=numbered())
    async with process(tmp_path / "db", service, jobs=1) as p, anyio.create_task_group() as tasks:
        await p.start("dispatcher")
        await p.until_event(lambda step: step.event == "claimed")
        leave = await fill(p.api.up, tasks)
        await anyio.sleep(100)
        leave.set()
        await anyio.sleep(5)
        assert await p.story() == ["claimed", "accepted"]


async def outstanding(p: Process) -> None:
    await p.start("dispatcher")
    await p.wait(lambda: p.progress.count("outstanding") == 5)


async def test_no_question_is_asked_while_large_answers_wait_for_the_line(tmp_path: Path) -> None:
    service = Scripted(run=numbered(), status=COMPLETED)
    async with process(tmp_path / "db", service, jobs=5) as p, anyio.create_task_group() as tasks:
        await outstanding(p)
        leave = await fill(p.api.down, tasks)
        await p.start("collector")
        await anyio.sleep(100)
        assert service.of("status") == []
        leave.set()
        await anyio.sleep(60)
        assert len(service.of("status")) >= 5


async def test_no_more_jobs_are_at_the_service_than_the_line_brings_back_in_time(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), jobs=rows(1)) as p:
        allowed = p.endpoint.estimates.status_per_s
        empty = p.endpoint.estimates.line_bytes_per_s
        line = p.api.down.line
        for _ in range(AT_ONCE):
            line.join(MIB)
        line.completed(4 * MIB)
        for epoch in range(2):
            line.moved(2 * MIB, p.clock.now() + epoch * EPOCH_US, has_waiting=True)
        assert p.endpoint.estimates.status_per_s == pytest.approx(0.5)
        assert [empty, p.endpoint.estimates.line_bytes_per_s] == [None, 2 * MIB], "which is shown"
        await anyio.sleep(STEADY_EPOCHS)
        assert p.endpoint.estimates.status_per_s == allowed, (
            "what the line brought when it was last full says nothing of now"
        )
