"""Runs that other engines serve, of which now and then nothing can be read."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.observers.runs_elsewhere import GATHER_S, RunsElsewhere
from orchestrator.ledger.opening import read_ledger
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.engine.hosting.test_database_away import Network
from tests.engine.several import JOBS, ONE, workplace
from tests.postgres.databases import Databases

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


LOOK_S = 4 * GATHER_S
"""As long as it takes until what has changed is seen."""


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


async def test_a_run_is_followed_further_after_a_while_in_which_the_ledger_could_not_be_read(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    network, looks = Network(url), []
    async with (
        workplace(tmp_path / "l.db", server=url) as w,
        read_ledger(parse_ledger_url(url), clock=w.clock, connect=network) as ledger,
        anyio.create_task_group() as group,
    ):
        run = await w.a_run(ONE)
        ledger.patience.seconds = 0
        elsewhere = RunsElsewhere(ledger, lambda: looks.append(network.is_cut))
        followed = await elsewhere.follow(run)
        await group.start(elsewhere.serve)
        network.cut()
        elsewhere.on_change()
        await anyio.sleep(LOOK_S)
        assert True in looks
        assert f"how {run.name} stands could not be read: " in caplog.text
        network.is_cut = False
        async with w.at_work(run):
            await w.until(run, State.SUCCEEDED, JOBS)
        elsewhere.on_change()
        await anyio.sleep(LOOK_S)
        assert elsewhere.of(run.id) is followed
        assert followed.progress.counts["succeeded"] == JOBS
        group.cancel_scope.cancel()


async def test_a_run_that_was_deleted_is_followed_no_more(tmp_path: Path) -> None:
    async with workplace(tmp_path / "l.db") as w, anyio.create_task_group() as group:
        run = await w.a_run(ONE)
        elsewhere = RunsElsewhere(w.ledger, lambda: None)
        followed = await elsewhere.follow(run)
        await group.start(elsewhere.serve)
        assert await w.ledger.runs.take_back(run.id)
        elsewhere.on_change()
        with anyio.fail_after(LOOK_S):
            await followed.progress.until(lambda: elsewhere.of(run.id) is None)
        group.cancel_scope.cancel()
