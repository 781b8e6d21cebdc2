"""Several engines in one process, on one ledger: each works on its own scope, and they come and go."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.core.gates.brake_gates import Canary
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.engine import engine_in
from orchestrator.engine.maintenance.maintenance import CLEAR_EVERY_S
from orchestrator.engine.runtime.scope import Scope
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import rows
from tests.engine.several import JOBS, ONE, OTHER, Workplace, another, receiving, workplace
from tests.ledger.ledgers import obeyed
from tests.postgres.databases import Databases
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


@pytest.mark.parametrize("webhooks", [False, True])
async def test_an_engine_ends_and_a_third_takes_its_place_while_another_works(tmp_path: Path, webhooks: bool) -> None:
    async with workplace(tmp_path / "l.db", webhooks=webhooks) as w, receiving(w):
        first, second = await w.a_run(ONE), await w.a_run(OTHER)
        async with w.at_work(first, is_keeper=True) as stays:
            async with w.at_work(second) as leaves:
                assert set(stays.endpoints.endpoints) == set(stays.runs.settings_of) == {first.endpoint_id}
                assert set(leaves.endpoints.endpoints) == {second.endpoint_id}
                await w.until(second, State.SUCCEEDED, JOBS // 4)
            before = await w.count(second, State.SUCCEEDED)
            assert await w.count(second, State.SUBMITTING) == 0
            await anyio.sleep(60)
            assert await w.count(second, State.SUCCEEDED) == before < JOBS, "nobody collects what nobody has"
            assert await w.count(second, State.OUTSTANDING) > 0
            assert await w.count(first, State.SUCCEEDED) == JOBS
            async with w.at_work(second):
                await w.until(second, State.SUCCEEDED, JOBS)
        assert w.service.paid == w.service.counts.submitted.total() == 2 * JOBS
        assert w.refused == 0
        assert [await w.ledger.jobs.notices.count(), w.heard.warnings] == [0, []]
        latest = await w.ledger.samples.endpoints.latest([first.endpoint_id, second.endpoint_id])
        assert [sample.submissions for sample in latest.values()] == [{"accepted": JOBS}] * 2
        assert [sample.ends for sample in latest.values()] == [{"succeeded": JOBS}] * 2


async def test_nothing_is_left_of_an_engine_that_has_ended_and_its_process_goes_on(tmp_path: Path) -> None:
    async with workplace(tmp_path / "l.db") as w:
        first, second = await w.a_run(ONE), await w.a_run(OTHER)
        nobody = w.heard_by
        async with w.at_work(first, is_keeper=True) as stays:
            alone = w.heard_by
            gone = []
            for _ in range(3):
                async with w.at_work(second) as engine:
                    gone.append(weakref.ref(engine))
                    assert w.process.report().runs.keys() == {first.id, second.id}
                    await anyio.sleep(2)
                    engine.stop()
                    await anyio.sleep_forever()
                del engine
            gc.collect()
            assert [each() for each in gone] == [None] * 3
            assert w.heard_by == alone
            assert w.process.report().runs.keys() == {first.id}
            assert not w.process.heart.is_asked_to_stop
            await w.until(first, State.SUCCEEDED, JOBS)
            assert stays.runs.sessions.keys() == {first.id}
        assert w.heard_by == nobody


async def test_what_has_no_part_in_a_scope_is_left_alone_by_its_engine(tmp_path: Path) -> None:
    """A run that comes later, at an endpoint of another engine, or of none."""
    async with workplace(tmp_path / "l.db") as w:
        first = await w.a_run(ONE)
        async with w.at_work(first, is_keeper=True) as engine:
            other = await w.a_run(OTHER)
            await engine.learn()
            assert other.id not in engine.runs.settings_of
            await w.until(first, State.SUCCEEDED, JOBS)
            assert await w.count(other, State.QUEUED) == JOBS
            assert engine.report().runs.keys() == {first.id}


async def test_what_a_dead_process_has_begun_to_take_in_is_cleared_by_the_keepers_engine(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w, w.at_work(is_keeper=True):
        await begin_intake(path, w)
        await anyio.sleep(2 * CLEAR_EVERY_S)
        assert await w.ledger.runs.named("left") is None


async def test_the_keepers_engine_does_not_wait_until_that_is_cleared(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w:
        await begin_intake(path, w)
        async with engine_in(w.process, Scope((), is_keeper=True)):
            assert await w.ledger.runs.named("left") is not None


async def test_what_was_left_at_an_endpoint_that_comes_to_an_engine_at_work_is_collected_by_it(tmp_path: Path) -> None:
    async with workplace(tmp_path / "l.db") as w:
        first, other = await w.a_run(ONE), await w.a_run(OTHER)
        async with w.at_work(other):
            await w.until(other, State.SUCCEEDED, 1)
        left = await w.count(other, State.OUTSTANDING)
        done = await w.count(other, State.SUCCEEDED)
        assert left > 0
        async with w.at_work(first) as engine:
            engine.scope.add([other.endpoint_id])
            await engine.reach(await w.ledger.runs.at_endpoint(first, OTHER))
            await w.until(other, State.SUCCEEDED, done + left)
            assert not engine.runs.unservable


async def begin_intake(path: Path, w: Workplace) -> None:
    """By a process that dies."""
    async with another(path, w.service, w.clock) as dead:
        left = await dead.ledger.runs.create(
            name="left", service_url=URL, endpoint=OTHER, source="/x", settings=RunSettings()
        )
        intake = await dead.ledger.runs.intakes.start(left)
        await dead.ledger.runs.intakes.add(intake, packed_rows(rows(JOBS)))


async def correct_all(ledger: Ledger, run: Run) -> None:
    """Each row has another input from now on, of which no engine is told."""
    intake = await ledger.runs.intakes.start(run)
    others = [replace(row, input=b'{"n":99}', digest=b"other%d" % row.line) for row in rows(JOBS)]
    await ledger.runs.intakes.add(intake, packed_rows(others))
    taken = await ledger.runs.intakes.accept(intake)
    assert taken.corrected.done == JOBS


@pytest.mark.parametrize("canary", [0, 3])
async def test_rows_that_another_process_has_corrected_go_and_count_though_it_died_before_it_said_so(
    tmp_path: Path, canary: int
) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w:
        w.service.broken.add(ONE)
        run = await w.a_run(ONE, RunSettings(canary=Canary(canary), breaker=OFF, max_attempts=1))
        async with w.at_work(run) as engine:
            session = engine.runs.sessions[run.id]
            await w.until(run, State.FAILED, canary or JOBS)
            await anyio.sleep(10)
            assert session.is_over
            w.service.broken.clear()
            async with another(path, w.service, w.clock) as dead:
                await correct_all(dead.ledger, run)
            with anyio.fail_after(120):
                await w.until(run, State.SUCCEEDED, JOBS)
            assert session.is_over
            assert {state: n for state, n in session.progress.counts.items() if n} == {"succeeded": JOBS}


async def test_rows_that_go_first_are_others_where_they_were_corrected_before_they_went(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w:
        run = await w.a_run(ONE, RunSettings(canary=Canary(3), breaker=OFF))
        await obeyed(w.ledger, Action.PAUSE, run=run.id)
        async with w.at_work(run) as engine:
            assert engine.runs.sessions[run.id].brakes.awaits_canary
            async with another(path, w.service, w.clock) as dead:
                await correct_all(dead.ledger, run)
            await anyio.sleep(10)
            await obeyed(w.ledger, Action.CONTINUE, run=run.id)
            with anyio.fail_after(120):
                await w.until(run, State.SUCCEEDED, JOBS)


@pytest.mark.slow
async def test_on_a_server_engines_of_two_processes_share_a_ledger(tmp_path: Path, url: str) -> None:
    async with (
        workplace(tmp_path / "l.db", server=url) as w,
        another(tmp_path / "l.db", w.service, w.clock, server=url) as there,
    ):
        first, second = await w.a_run(ONE), await w.a_run(OTHER)
        async with w.at_work(first, is_keeper=True):
            async with there.at_work(second):
                await w.until(second, State.SUCCEEDED, JOBS // 4)
            async with w.at_work(second):
                await w.until(second, State.SUCCEEDED, JOBS)
            await w.until(first, State.SUCCEEDED, JOBS)
        assert w.service.paid == w.service.counts.submitted.total() == 2 * JOBS
        assert w.refused == 0
        assert [*w.heard.warnings, *there.heard.warnings] == []
