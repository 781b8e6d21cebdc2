"""Whichever command works on a ledger, it begins, waits for its place and ends in the same ways."""

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from orchestrator.api.admin.process_stop import stop as ask_to_stop
from orchestrator.api.flows.triggers import trigger
from orchestrator.api.foreground.run import run
from orchestrator.api.foreground.serve import serve
from orchestrator.api.foreground.tick import tick, wait_for_flow
from orchestrator.api.hosting.host import OPENED_S_MAX, Host
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerBusyError, StorageError
from orchestrator.ledger import command_ledger, dispatcher_lock, holder, holding_ledger
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.words_and_defaults import IN_FLIGHT_S_MAX
from tests.api.flows.test_flows import DAY_S, Desk
from tests.api.runs.test_program import Silence, request_in
from tests.engine.scripted import Scripted, says
from tests.simulation.database import async_creator
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Work:
    """A folder with a pipeline whose jobs never come back, and a process that works there."""

    def __init__(self, folder: Path) -> None:
        self.desk = Desk(folder, Scripted(run=lambda _: says("IN_QUEUE", "r-1"), status=says("IN_PROGRESS")))
        self.dependencies = msgspec.structs.replace(
            self.desk.dependencies, lock=holding_ledger, watch_every_s=Dependencies().watch_every_s
        )
        self.ledger = self.desk.ledger
        self.console = Silence()
        self.stop = anyio.Event()

    async def prepared(self) -> "Work":
        await self.desk.applies()
        await anyio.sleep(DAY_S)
        return self

    async def by_run(self) -> None:
        request = msgspec.structs.replace(request_in(self.desk.folder, 3), ledger=self.ledger)
        await run(request, self.console, self.dependencies, self.stop)

    async def by_serve(self) -> None:
        await serve(self.desk.request, self.console, self.dependencies, self.stop)

    async def by_tick(self) -> None:
        await tick(self.desk.request, self.console, self.dependencies, self.stop)

    async def by_trigger(self) -> None:
        asked = await trigger(self.ledger, "p", None, self.dependencies)
        await wait_for_flow(self.desk.request, asked.flows[0], self.console, self.dependencies, self.stop)


WAYS: dict[str, Callable[[Work], Coroutine[Any, Any, None]]] = {
    "run": Work.by_run,
    "serve": Work.by_serve,
    "tick": Work.by_tick,
    "trigger": Work.by_trigger,
}


@pytest.mark.parametrize(
    ("way", "by_command"),
    [
        ("run", False),
        ("serve", True),
        *(pytest.param(way, False, marks=pytest.mark.slow) for way in ("serve", "tick", "trigger")),
        *(pytest.param(way, True, marks=pytest.mark.slow) for way in ("run", "tick", "trigger")),
    ],
)
async def test_who_is_asked_to_stop_ends_in_order_and_leaves_the_ledger_to_others(
    tmp_path: Path, way: str, by_command: bool
) -> None:
    work = await Work(tmp_path).prepared()
    with anyio.fail_after(60 + IN_FLIGHT_S_MAX):
        async with anyio.create_task_group() as group:
            group.start_soon(WAYS[way], work)
            await anyio.sleep(30)
            assert holder(work.ledger) is not None
            if by_command:
                assert (await ask_to_stop(work.ledger, dependencies=work.dependencies)).ended
            else:
                work.stop.set()
    assert holder(work.ledger) is None
    assert len([line for line in work.console.lines if line.startswith("stopping: ")]) == 1


@pytest.mark.parametrize("way", WAYS)
async def test_who_is_interrupted_again_ends_at_once(tmp_path: Path, way: str) -> None:
    work = await Work(tmp_path).prepared()
    with anyio.fail_after(31):
        async with anyio.create_task_group() as group:
            group.start_soon(WAYS[way], work)
            await anyio.sleep(30)
            work.stop.set()
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
    assert holder(work.ledger) is None


@pytest.mark.parametrize("way", WAYS)
async def test_who_is_stopped_before_it_works_sends_nothing(tmp_path: Path, way: str) -> None:
    work = await Work(tmp_path).prepared()
    work.stop.set()
    with anyio.fail_after(60):
        await WAYS[way](work)
    assert work.desk.transport.asked == []
    assert holder(work.ledger) is None


def host_of(work: Work) -> Host:
    return Host(
        path=work.ledger,
        connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        dependencies=work.dependencies,
        console=work.console,
        stop=work.stop,
    )


async def test_who_finds_the_lock_taken_takes_the_place_as_soon_as_it_is_free(tmp_path: Path) -> None:
    work = await Work(tmp_path).prepared()
    host = host_of(work)
    async with AsyncExitStack() as held:
        other = held.enter_context(ExitStack())
        other.enter_context(dispatcher_lock(work.ledger, now=work.desk.clock.now()))
        assert not await host.take_lock_or_find(held)
        async with (
            command_ledger(work.ledger, clock=work.desk.clock, connect=async_creator(work.ledger)) as ledger,
            anyio.create_task_group() as group,
        ):
            with anyio.move_on_after(5) as waited:
                await host.take_place(held, ledger, is_left=lambda: False)
            assert waited.cancelled_caught
            group.start_soon(anyio.sleep, 1)
            other.close()
            assert await host.take_place(held, ledger, is_left=lambda: False)
            assert not await host.take_place(held, ledger, is_left=lambda: True)
        assert holder(work.ledger) is not None
    assert holder(work.ledger) is None


@pytest.mark.slow
@pytest.mark.parametrize("is_stopped", [False, True])
async def test_who_finds_the_lock_taken_of_a_ledger_that_never_comes_gives_up(tmp_path: Path, is_stopped: bool) -> None:
    work = Work(tmp_path)
    if is_stopped:
        work.stop.set()
    async with AsyncExitStack() as held:
        held.enter_context(dispatcher_lock(work.ledger, now=work.desk.clock.now()))
        began = anyio.current_time()
        with pytest.raises(LedgerBusyError):
            await host_of(work).take_lock_or_find(held)
        assert anyio.current_time() - began == pytest.approx(0 if is_stopped else OPENED_S_MAX, abs=1)


async def test_who_waits_for_the_place_at_a_ledger_that_is_gone_makes_no_other(tmp_path: Path) -> None:
    work = await Work(tmp_path).prepared()
    async with command_ledger(work.ledger, clock=work.desk.clock, connect=async_creator(work.ledger)) as ledger:
        work.ledger.unlink()
        async with AsyncExitStack() as held:
            with pytest.raises(StorageError, match="not in its place"):
                await host_of(work).take_place(held, ledger, is_left=lambda: False)
    assert not work.ledger.exists()
