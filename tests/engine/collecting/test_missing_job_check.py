"""Jobs that the service forgets now and then, and endpoints that are out of their mind."""

import json
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, GONE, IN_PROGRESS, Asked, Reply, Scripted, numbered, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
JOBS = 750
EACH = 30
"""One in so many is lost."""


def n_of(asked: Asked) -> int:
    return int(json.loads(asked.body)["input"]["n"]) if asked.operation == "run" else int(asked.remote_id[2:])


@pytest.mark.slow
async def test_some_lost_jobs_among_many_do_not_stop_a_run_with_webhooks(tmp_path: Path) -> None:
    first: set[int] = set()

    def is_lost(n: int) -> bool:
        return n % EACH == 0 and n not in again

    def run(asked: Asked) -> Reply:
        n = n_of(asked)
        (again if n in first else first).add(n)
        if not is_lost(n):
            done.append((int(json.loads(asked.body)["webhook"].rpartition("/")[2].partition(".")[0]), n))
        return numbered()(asked)

    again: set[int] = set()
    done: list[tuple[int, int]] = []
    transport = Scripted(run=run, status=lambda asked: GONE if is_lost(n_of(asked)) else COMPLETED)
    async with process(tmp_path / "db", transport, jobs=JOBS, webhooks=True) as p:

        async def notify() -> None:
            while True:
                await anyio.sleep(1)
                finished = done[:]
                done.clear()
                for submission, n in finished:
                    await tell(p, submission, says("COMPLETED", f"r-{n}", output=n))

        p.taking.start_soon(notify)
        await p.begin()
        began_at_s = anyio.current_time()
        await p.finish()
        assert await p.counts() == {"succeeded": JOBS, "lost": JOBS // EACH}
        assert not any("unknown to the service" in warning for warning in p.warnings)
        assert anyio.current_time() - began_at_s < 300, "no retention was waited for"


@pytest.mark.slow
@pytest.mark.parametrize("gone_at_s", [3.0, 8.0])
async def test_an_endpoint_that_forgets_everything_is_suspect_at_once_though_it_takes_new_jobs(
    tmp_path: Path, gone_at_s: float
) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: GONE if asked.at_s > gone_at_s else IN_PROGRESS)
    limits = {Operation.RUN: Limit(100, 1)}
    async with process(tmp_path / "db", transport, jobs=400, limits=limits) as p:
        for _ in range(60):
            p.endpoint.estimates.durations.observe(100, 5_000)
        await p.begin()
        await anyio.sleep_until(gone_at_s + 20)
        assert p.endpoint.health.is_suspect(p.clock.now())
        assert (await p.counts()).get("lost", 0) == 0
        sent = len(transport.of("run"))
        await anyio.sleep(120)
        assert len(transport.of("run")) <= sent + 30
        assert (await p.counts()).get("lost", 0) == 0


@pytest.mark.slow
async def test_where_there_is_no_health_to_be_asked_for_other_jobs_show_that_the_endpoint_is_well(
    tmp_path: Path,
) -> None:
    def status(asked: Asked) -> Reply:
        if asked.remote_id == "r-1" and len(transport.of("run")) < 31:
            return GONE
        return IN_PROGRESS if asked.at_s < 600 else COMPLETED

    transport = Scripted(run=numbered(), status=status, health=Reply(404))
    async with process(tmp_path / "db", transport, jobs=30) as p:
        await p.begin()
        await p.finish()
        asked = [asked.at_s for asked in transport.of("status") if asked.remote_id == "r-1"]
        assert "retried lost" in await p.story(1)
        lost = next(event for event in await p.events(1) if event.trouble == "lost")
        assert lost.at / SECOND - (await p.events(1))[0].at / SECOND < 300
        assert len(asked) < 100
        assert await p.counts() == {"succeeded": 30, "lost": 1}


async def test_webhooks_of_other_jobs_do_not_show_that_an_endpoint_answers_questions(tmp_path: Path) -> None:
    transport = Scripted(
        run=numbered(), status=lambda asked: GONE if asked.at_s < 900 else COMPLETED, health=Reply(404)
    )
    async with process(tmp_path / "db", transport, jobs=12) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        for n in range(2, 13):  # workers go on while their endpoint is hidden
            await anyio.sleep(20)  # one between each two questions
            told = says("COMPLETED", (await p.job(n)).remote_id, output={"ok": 1}, delayTime=10, executionTime=20)
            await tell(p, await submission_of(p, n), told)
        await p.finish()
        assert len(transport.of("run")) == 12, "none was paid again"


async def test_where_nothing_shows_that_the_endpoint_is_well_a_missing_job_waits_for_the_retention(
    tmp_path: Path,
) -> None:
    transport = Scripted(status=lambda _: COMPLETED if len(transport.of("run")) > 1 else GONE, health=Reply(404))
    async with process(tmp_path / "db", transport, settings=RunSettings(retention_us=120 * SECOND)) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": 1, "expired": 1}
