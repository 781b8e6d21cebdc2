"""Whoever works on a ledger ends in order once somebody asks for that, and so does who waits for its place."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from orchestrator.api.admin.process_stop import Stopped, stop
from orchestrator.api.foreground.serve import serve
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import command_ledger, holder
from orchestrator.ledger.commands.command_types import Action
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.views.status import Summary
from tests.api.runs.test_program import surroundings
from tests.engine.hosting.test_continued import JOBS, Desk, desk_in
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def ledger_of(desk: Desk) -> Path:
    return desk.folder / "ledger.db"


def around(desk: Desk) -> Dependencies:
    return surroundings(desk.service, desk.clock)


@asynccontextmanager
async def at_work(desk: Desk, *names: str) -> AsyncIterator[dict[str, Summary]]:
    """A process for each of these runs, whose jobs take for ever; what each came to."""
    ended: dict[str, Summary] = {}

    async def begin(name: str) -> None:
        output, errors = desk.folder / f"{name}.out", desk.folder / f"{name}.errors"
        ended[name] = await desk.run(name=name, output=output, errors=errors)

    with anyio.fail_after(600):
        async with anyio.create_task_group() as group:
            for name in names:
                group.start_soon(begin, name)
                await anyio.sleep(5)
            yield ended


async def test_a_process_that_is_asked_to_stop_ends_as_one_that_is_interrupted(tmp_path: Path) -> None:
    async with desk_in(tmp_path, seconds=lambda _: 3_000.0) as desk, at_work(desk, "one") as ended:
        before = holder(ledger_of(desk))
        stopped = await stop(ledger_of(desk), dependencies=around(desk))
    assert stopped == Stopped(ledger=str(ledger_of(desk)), was=before, ended=True, outcome="it stops")
    assert (ended["one"].interrupted, ended["one"].jobs["outstanding"]) == (True, JOBS)
    assert any("asks this process to stop" in line for line in desk.console.lines)
    assert "continue with: " in desk.console.lines[-1]


async def test_who_waits_for_its_place_ends_too(tmp_path: Path) -> None:
    async with desk_in(tmp_path, seconds=lambda _: 3_000.0) as desk, at_work(desk, "one", "two") as ended:
        stopped = await stop(ledger_of(desk), dependencies=around(desk))
    assert (stopped.ended, stopped.holder) == (True, None)
    assert {name: each.interrupted for name, each in ended.items()} == {"one": True, "two": True}


async def test_a_process_that_serves_all_runs_ends_too(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk, anyio.create_task_group() as group:
        await desk.run()
        connection = ConnectionSettings(serverless_url=URL, api_key="key")
        group.start_soon(serve, ServeRequest(ledger=ledger_of(desk), connection=connection), None, around(desk))
        await anyio.sleep(5)
        assert (await stop(ledger_of(desk), dependencies=around(desk))).ended


async def test_what_was_asked_of_a_process_that_was_killed_ends_none_after_it(tmp_path: Path) -> None:
    async with desk_in(tmp_path) as desk:
        await desk.run(1)
        async with command_ledger(ledger_of(desk), clock=desk.clock, connect=async_creator(ledger_of(desk))) as ledger:
            number = await ledger.commands.ask(Action.STOP)
            assert (await desk.run()).interrupted is False
            assert (await ledger.commands.one(number)).is_refused
        assert await stop(ledger_of(desk), dependencies=around(desk)) == Stopped(
            ledger=str(ledger_of(desk)), was=None, ended=True
        )


async def test_a_program_of_somebody_s_is_not_ended_from_elsewhere(tmp_path: Path) -> None:
    async with (
        desk_in(tmp_path) as desk,
        Orchestrator(ledger_of(desk), serverless_url=URL, api_key="key", _dependencies=around(desk)) as orc,
    ):
        with pytest.raises(UsageError, match="a program of somebody's works on this ledger"):
            await stop(ledger_of(desk), dependencies=around(desk))
        run = await orc.submit([{"n": 1}], endpoint=ENDPOINT, name="here")
        assert [each.output async for each in run.results()] == [{"n": 1}]
