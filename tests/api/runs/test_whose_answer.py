"""Who is told to carry out what is asked of one part of a ledger that several processes share."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import pytest

from orchestrator.api.admin.limits import limits_reset
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.runs.process_commands import control, retry
from orchestrator.clock import SystemClock
from orchestrator.engine.commands.inbox import CommandInbox
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.scope import Scope
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.commands.command_types import Action, Command, Reply
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import ProcessName, ProcessNumber
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import RunControl, RunStatus
from tests.engine.rows import rows
from tests.postgres.databases import Databases, plain_connections
from tests.postgres.owners import joins

pytestmark = pytest.mark.anyio

KEEPER = ProcessName("process 1 on one (serve)", " #00000001")
OTHER = ProcessName("process 2 on two (serve)", " #00000002")


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


class Shared:
    """A ledger on a server with a run at each of two endpoints, and two processes that have a part of it each."""

    def __init__(self, url: str, ledger: Ledger, leases: Leases, keeper: ProcessNumber, other: ProcessNumber) -> None:
        self.address: LedgerUrl = parse_ledger_url(url)
        self.given = Dependencies(connect=lambda _: plain_connections(url))
        self.ledger, self.leases, self.keeper, self.other = ledger, leases, keeper, other

    async def a_run(self, endpoint: str) -> Run:
        run = await self.ledger.runs.create(
            name=f"at {endpoint}", service_url="u", endpoint=endpoint, source="/x", settings=RunSettings()
        )
        intake = await self.ledger.runs.intakes.start(run)
        await self.ledger.runs.intakes.add(intake, packed_rows(rows(3)))
        await self.ledger.runs.intakes.accept(intake)
        await self.leases.sighting()
        return run

    @asynccontextmanager
    async def obeying(self, *runs: Run, is_keeper: bool = False) -> AsyncIterator[None]:
        """Somebody carries out what concerns these runs, or, as the keeper, everybody."""
        scope = Scope([run.endpoint_id for run in runs], is_keeper=is_keeper)
        inbox = CommandInbox(self.ledger, scope)
        inbox.register(Action.RETRY, _retried)

        async def obey() -> None:
            while True:
                await inbox.run_once()
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(obey)
            yield
            tasks.cancel_scope.cancel()

    async def pause(self, run: Run) -> RunControl:
        return await control(self.address, run.name, ControlAction.PAUSE, self.given)


async def _retried(_command: Command) -> Reply:
    return Reply("they are queued again")


async def _connected(url: str, process: ProcessName) -> Any:
    return await plain_connections(url)({"application_name": f"orchestrator{process.mark}"}, LineBounds())


@asynccontextmanager
async def shared(url: str) -> AsyncIterator[Shared]:
    one, two = await _connected(url, KEEPER), await _connected(url, OTHER)
    keeper, other = await joins(one, KEEPER), await joins(two, OTHER)
    address, connect = parse_ledger_url(url), plain_connections(url)
    async with command_ledger(address, clock=SystemClock(), connect=connect) as ledger:
        yield Shared(url, ledger, Leases(one), keeper, other)
    await one.close()
    await two.close()


def who(found: str | None) -> str | None:
    return found and found.partition(" since ")[0]


async def test_the_owner_of_its_endpoint_is_told_and_where_nobody_has_it_the_keeper_does_what_only_changes_the_ledger(
    url: str,
) -> None:
    async with shared(url) as at:
        one, two = await at.a_run("a"), await at.a_run("b")
        await at.leases.take(at.keeper, [0, one.endpoint_id])
        await at.leases.take(at.other, [two.endpoint_id])
        async with at.obeying(one, is_keeper=True):
            async with at.obeying(two):
                assert [who((await at.pause(each)).holder) for each in (one, two)] == [KEEPER.name, OTHER.name]
                assert {each.run: who(each.held_by) for each in await _status(at)} == {
                    one.name: KEEPER.name,
                    two.name: OTHER.name,
                }
                reset = await limits_reset(at.address, two.name, (), at.given)
                assert (who(reset.holder), reset.outcome) == (OTHER.name, "the former ones are in force")

            three = await at.a_run("c")
            [left] = [each for each in await _status(at) if each.run == three.name]
            assert left.held_by is None
            assert left.verdict is not None
            asked = await at.pause(three)
            assert (who(asked.holder), asked.outcome, asked.paused) == (KEEPER.name, "nothing more of it is sent", True)


async def test_where_nobody_is_there_to_do_it_what_only_changes_the_ledger_is_done_at_once_and_the_rest_waits(
    url: str,
) -> None:
    async with shared(url) as at:
        one = await at.a_run("a")
        assert (await at.pause(one)).outcome == "nothing more of it is sent"
        waits = await retry(at.address, one.name, at.given)
        assert (waits.holder, waits.outcome) == (None, None)
        await at.leases.take(at.other, [one.endpoint_id])
        async with at.obeying(one):
            asked = await retry(at.address, one.name, at.given)
            assert (who(asked.holder), asked.outcome) == (OTHER.name, "they are queued again")
            assert [each.action for each in await at.ledger.commands.pending()] == []


async def _status(at: Shared) -> list[RunStatus]:
    return await runs_now(at.ledger, await at.ledger.holder())
