"""Each of several processes on a ledger on a server ends once somebody asks for that, all of them or one by its name."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import pytest

from orchestrator.api.admin.process_stop import ProcessEnd, stop
from orchestrator.clock import SystemClock
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.ledger_watch import LedgerWatch
from orchestrator.engine.process.stop_watch import StopWatch
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.commands.command_types import Action, AskedCommands
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Processes, ProcessName
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from tests.postgres.databases import Databases, plain_connections
from tests.postgres.owners import joins

pytestmark = pytest.mark.anyio

ONE = ProcessName("process 11 on one (serve)", " #00000001")
TWO = ProcessName("process 12 on two (serve)", " #00000002")
THREE = ProcessName("process 13 on two (serve)", " #00000003")


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


class Several:
    """Processes of a ledger, the first of which is the keeper; each ends once it is to."""

    def __init__(self, url: str, ledger: Ledger) -> None:
        self.address: LedgerUrl = parse_ledger_url(url)
        self.given = Dependencies(connect=lambda _: plain_connections(url))
        self.ledger = ledger
        self.stops: dict[str, anyio.Event] = {}

    async def live(self, driver: Any, process: ProcessName, turn: anyio.Lock) -> None:
        """One of them, until it is to end."""
        stop = self.stops[process.name]
        async with turn:
            number = await joins(driver, process)
            await Leases(driver).sighting()
            await Leases(driver).take(number, [0])
        watch = StopWatch(ledger=self.ledger, number=number.id, stop=stop, console=SilentConsole())
        signals = LedgerWatch(self.ledger.signals_of_others)
        signals.subscribers.add(watch.on_change)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.serve)
            tasks.start_soon(signals.serve)
            await stop.wait()
            tasks.cancel_scope.cancel()
        async with turn:
            await Processes(driver).leave(number)

    @property
    def stopped(self) -> list[str]:
        return [name for name, stop in self.stops.items() if stop.is_set()]


@asynccontextmanager
async def several(url: str, *names: ProcessName) -> AsyncIterator[Several]:
    driver, turn = (
        await plain_connections(url)({"application_name": f"orchestrator{ONE.mark}"}, LineBounds()),
        anyio.Lock(),
    )
    async with command_ledger(parse_ledger_url(url), clock=SystemClock(), connect=plain_connections(url)) as ledger:
        at = Several(url, ledger)
        async with anyio.create_task_group() as tasks:
            for each in names:
                at.stops[each.name] = anyio.Event()
                tasks.start_soon(at.live, driver, each, turn)
            assert ledger.server is not None
            while len((await ledger.server.processes()).processes) < len(names):
                await anyio.lowlevel.checkpoint()
            yield at
            for end in at.stops.values():
                end.set()
    await driver.close()


async def test_all_end_and_of_each_it_is_said_and_where_nobody_works_that_is_said(url: str) -> None:
    async with several(url, ONE, TWO, THREE) as at:
        stopped = await stop(at.address, None, at.given)
        assert (stopped.ended, stopped.outcome, stopped.holder) == (True, "it stops", None)
        assert stopped.processes == tuple(ProcessEnd(process=each.name, ended=True) for each in (ONE, TWO, THREE))
        assert stopped.was is not None
        assert stopped.was.startswith(f"{ONE.name} since ")
        assert at.stopped == [ONE.name, TWO.name, THREE.name]
        assert (await stop(at.address, None, at.given)).was is None


async def test_one_is_named_by_a_part_that_no_other_has(url: str) -> None:
    async with several(url, ONE, TWO, THREE) as at:
        for name, why in (
            ("on two", "2 processes have 'on two' in their names; there are: process 11"),
            ("four", "no process is called 'four'; there are: process 11 on one .serve.; process 12"),
        ):
            with pytest.raises(UsageError, match=why):
                await stop(at.address, name, at.given)
        stopped = await stop(at.address, "12", at.given)
        assert stopped.processes == (ProcessEnd(process=TWO.name, ended=True),)
        assert str(stopped.holder).startswith(ONE.name)
        assert at.stopped == [TWO.name]


async def test_what_was_asked_before_a_process_was_there_does_not_end_it_nor_what_cannot_be_understood(
    url: str,
) -> None:
    async with several(url, ONE) as at:
        await at.ledger.commands.ask(Action.STOP_PROCESS)
        before = await at.ledger.commands.asked()
        assert await at.ledger.commands.end_asked(1, since=AskedCommands()) is None
        number = await at.ledger.commands.ask(Action.STOP)
        found = await at.ledger.commands.end_asked(1, since=before)
        assert found is not None
        assert (found.id, json.loads(found.argument)) == (number, {})
        assert await at.ledger.commands.end_asked(1, since=await at.ledger.commands.asked()) is None


async def test_what_was_asked_before_later_commands_and_is_committed_after_them_is_seen_by_who_came_between(
    url: str,
) -> None:
    async with several(url, ONE) as at:
        driver = await plain_connections(url)({}, LineBounds())
        async with driver.transaction():
            number = await driver.fetchval(
                "INSERT INTO commands (asked_at, asked_by, action, argument) VALUES (1, 'me', 'stop', '{}') RETURNING id"
            )
            later = await at.ledger.commands.ask(Action.TICK)
            before = await at.ledger.commands.asked()
        assert await at.ledger.commands.is_stop_asked(since=before)
        found = await at.ledger.commands.end_asked(1, since=before)
        assert found is not None
        assert found.id == number < later
        await driver.close()


async def test_one_that_does_not_end_is_told(url: str) -> None:
    driver = await plain_connections(url)({}, LineBounds())
    await joins(driver, ONE)
    given = Dependencies(connect=lambda _: plain_connections(url))
    stopped = await stop(parse_ledger_url(url), None, given, within_s=0.2)
    assert (stopped.ended, stopped.outcome) == (False, None)
    assert stopped.processes == (ProcessEnd(process=ONE.name, ended=False),)
    await driver.close()
