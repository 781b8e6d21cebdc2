"""Several engines in one process, on one ledger: each works on its own scope, and they come and go."""

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.maintenance.maintenance import CLEAR_EVERY_S
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.settings.run_settings import RunSettings
from tests.engine.rows import rows
from tests.engine.several import JOBS, ONE, OTHER, another, receiving, workplace
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
        async with another(path, w.service, w.clock) as dead:
            left = await dead.ledger.runs.create(
                name="left", service_url=URL, endpoint=OTHER, source="/x", settings=RunSettings()
            )
            intake = await dead.ledger.runs.intakes.start(left)
            await dead.ledger.runs.intakes.add(intake, packed_rows(rows(JOBS)))
        await anyio.sleep(2 * CLEAR_EVERY_S)
        assert await w.ledger.runs.named("left") is None


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
