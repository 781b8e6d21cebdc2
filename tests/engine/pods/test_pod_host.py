"""Runs with pods beside others: what one waits for is no other's, and what fails is tried again.

Time is that of `tests.simulation`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.api.foreground.serve import serve
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.engine.engine import Engine, engine_in
from orchestrator.engine.hosting.pod_host import PodHost
from orchestrator.engine.hosting.run_registry import UNDECIDED_US
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.engine.process.engine_process import EngineProcess, open_process
from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, command_ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.pods.workplace import CONNECTION, TEMPLATE, Workplace, is_template_list
from tests.engine.rows import run_of_rows
from tests.simulation.database import async_creator
from tests.simulation.world import URL

JOBS = 6
SETTINGS = RunSettings(via=Via.HTTP, path="/work", pods=1, pod_template=TEMPLATE, queue_depth=1)
UNDECIDED_S = UNDECIDED_US / SECOND_US
SLOW_S = 29.0
"""The account takes so long: two after each other wait for longer than runs may be about to be served."""


async def a_run(ledger: Ledger, name: str) -> Run:
    """One of some jobs, which wants a pod."""
    return await run_of_rows(ledger, name, service_url=URL, endpoint="pods:vllm", settings=SETTINGS, jobs=JOBS)


@asynccontextmanager
async def at_work(process: EngineProcess, runs: Sequence[Run]) -> AsyncIterator[Engine]:
    """An engine that works on these, and then leaves them to another one."""
    there = {run.endpoint_id for run in (*runs, *await process.ledger.runs.elsewhere())}
    async with engine_in(process, Scope(there, is_keeper=True)) as engine:
        await engine.runs.learn_settings()
        async with engine.working():
            await engine.collect()
            await engine.keep_up()
            yield engine
            engine.stop(is_succeeded=True)
            await anyio.sleep_forever()


async def until_done(ledger: Ledger, runs: Sequence[Run], number: int = JOBS) -> None:
    """Waits until so many jobs of each have succeeded."""
    while True:
        counts = await ledger.runs.counts_by_run([run.id for run in runs])
        if all(counts[run.id].get(State.SUCCEEDED.value, 0) >= number for run in runs):
            return
        await anyio.sleep(1)


def held_up(place: Workplace, after: int = 0) -> tuple[anyio.Event, anyio.Event]:
    """The account does not answer `after` so many questions before it may: whether it was asked, and what lets it."""
    is_asked, may_answer, questions = anyio.Event(), anyio.Event(), count()

    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_template_list(request) and next(questions) >= after:
            is_asked.set()
            await may_answer.wait()
        return None

    place.way.before = before
    return is_asked, may_answer


def beside(place: Workplace) -> AbstractAsyncContextManager[Ledger]:
    """The ledger, for somebody who only asks."""
    path = place.folder / "db"
    return command_ledger(path, clock=place.clock, connect=async_creator(path))


async def asked(ledger: Ledger, runs: Sequence[Run], *actions: Action) -> None:
    """Whoever serves the runs has carried that out."""
    for number in [await ledger.commands.ask(action, run=run.id) for action in actions for run in runs]:
        while (await ledger.commands.answer(number)).outcome is None:  # noqa: ASYNC110  nobody tells
            await anyio.sleep(1)


def test_a_run_that_is_released_while_its_account_does_not_answer_is_not_sent_before_somebody_asks_again(
    tmp_path: Path,
) -> None:
    place = Workplace(tmp_path)
    is_asked, may_answer = held_up(place)

    async def main() -> None:
        stop = anyio.Event()
        async with beside(place) as ledger:
            runs = [await a_run(ledger, name) for name in ("first", "second")]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(serve, place.serving, place.console, place.dependencies, stop)
                await is_asked.wait()
                await asked(ledger, runs, Action.RELEASE)  # of which the second one waits for the first
                may_answer.set()
                await anyio.sleep(UNDECIDED_S)
                assert not place.executed
                assert await ledger.runs.releases.to_serve() == []
                await asked(ledger, runs, Action.SERVE)
                await until_done(ledger, runs)
                stop.set()

    place.world(main)


def test_a_run_in_the_foreground_that_is_released_while_its_account_does_not_answer_ends_unsent(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    is_asked, may_answer = held_up(place, after=1)  # which is asked before there is a run

    async def release(ledger: Ledger) -> None:
        await is_asked.wait()
        await asked(ledger, await ledger.runs.all(), Action.RELEASE)
        may_answer.set()

    async def main() -> None:
        async with beside(place) as ledger, anyio.create_task_group() as tasks:
            tasks.start_soon(release, ledger)
            await place.carry_out(JOBS)
            assert not place.executed
            assert await ledger.runs.releases.to_serve() == []
            await place.carry_out(JOBS)
            assert len(place.executed) == JOBS, "whoever begins it again wants it sent"

    place.world(main)


def test_no_command_waits_until_the_account_of_another_run_answers(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    is_asked, may_answer = held_up(place)

    async def main() -> None:
        stop = anyio.Event()
        async with beside(place) as ledger, anyio.create_task_group() as tasks:
            runs = [await a_run(ledger, name) for name in ("first", "second")]
            tasks.start_soon(serve, place.serving, place.console, place.dependencies, stop)
            await is_asked.wait()
            asked_at = anyio.current_time()
            await asked(ledger, runs, Action.SERVE, Action.PAUSE)
            assert anyio.current_time() - asked_at < 10, "it looks what is asked now and then"
            may_answer.set()
            await anyio.sleep(UNDECIDED_S)
            assert not place.executed
            await asked(ledger, runs, Action.CONTINUE)
            await until_done(ledger, runs)
            stop.set()

    place.world(main)


@pytest.mark.slow
def test_pods_of_runs_that_are_served_later_are_kept_by_who_comes_next(tmp_path: Path) -> None:
    place = Workplace(tmp_path, execution_s=20)

    async def slow(request: httpx.Request) -> httpx.Response | None:
        if is_template_list(request):
            await anyio.sleep(SLOW_S)
        return None

    async def main() -> None:
        async with open_process(tmp_path / "db", CONNECTION, place.dependencies, place.console) as process:
            runs = [await a_run(process.ledger, name) for name in ("first", "second", "third", "fourth")]
            async with at_work(process, runs):
                await until_done(process.ledger, runs, 1)
            place.way.before = slow
            for run in runs[:2]:  # which is done before it is looked which others are to be served
                await process.ledger.commands.ask(Action.SERVE, run=run.id)
            async with at_work(process, runs):
                await until_done(process.ledger, runs)
            assert len(await process.ledger.runs.pod_leases.all()) == len(runs)

    place.world(main)


def test_a_pod_that_cannot_take_part_for_now_takes_part_later_and_those_of_other_runs_at_once(tmp_path: Path) -> None:
    place = Workplace(tmp_path, execution_s=20)
    joined: list[str] = []

    async def join(session: RunSession) -> None:
        joined.append(session.run.name)
        if joined == ["first"]:
            raise UsageError("who serves it is unknown just now")

    async def main() -> None:
        async with open_process(tmp_path / "db", CONNECTION, place.dependencies, place.console) as process:
            runs = [await a_run(process.ledger, name) for name in ("first", "second")]
            async with at_work(process, runs) as engine:
                await until_done(process.ledger, runs, 1)
                engine.runs.pod_urls.clear()
                pods = PodHost(
                    ledger=process.ledger,
                    runs=engine.runs,
                    services=process.services,
                    dependencies=place.dependencies,
                    console=place.console,
                    join=join,
                )
                with pytest.raises(UsageError, match="unknown just now"):
                    await pods.look()
                await pods.look()
                assert joined == ["first", "second", "first"]

    place.world(main)
