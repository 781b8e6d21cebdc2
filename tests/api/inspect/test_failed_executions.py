"""What executions said that failed and were tried again: of each job, by kind, while it goes on and at its end."""

import itertools
from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect import status as look
from orchestrator.api.outcomes.job_detail import job_show
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.ledger.transitions.execution_writes import MESSAGE_CHARS_MAX
from tests.api.desk import desk, numbers
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_what_failed_and_succeeded_later_is_told_by_job_and_kind(tmp_path: Path) -> None:
    executions = itertools.count()

    def work(raw: bytes, _: int) -> Answer:
        n = next(executions)
        return Answer(output=raw) if n >= 4 else Answer(error=f"CUDA out of memory: {n} MiB {'x' * 2_000}")

    async with desk(tmp_path, work=work, seconds=lambda _: 2.0) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(4), endpoint=ENDPOINT, name="captions", breaker="off", price_per_second=0.5)
        await run.wait()
        assert run.counts["succeeded"] == 4
        [kind] = await run.failures()
        assert (kind.count, kind.class_, kind.try_ids) == (0, "failed", ())
        assert kind.retried is not None
        assert (kind.retried.count, kind.retried.unfinished) == (4, 0)
        assert kind.retried.execution_s == pytest.approx(8.0, abs=1.0)
        assert kind.retried.cost == pytest.approx(kind.retried.execution_s / 2)
        for result in [each async for each in run.results(order="input")]:
            [failed] = (await job_show(d.ledger, "captions", result.custom_id)).failed_executions
            assert (failed.attempt, failed.class_, failed.cluster) == (1, "failed", kind.cluster)
            assert failed.error.startswith("CUDA out of memory: ")
            assert len(failed.error) <= MESSAGE_CHARS_MAX


async def test_what_will_still_be_tried_is_among_the_failures_at_once(tmp_path: Path) -> None:
    async with desk(tmp_path, work=lambda *_: Answer(error="no"), seconds=lambda _: 2.0) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(3), endpoint=ENDPOINT, name="captions", breaker="off", max_attempts=3)
        await anyio.sleep(4)
        [kind] = await run.failures()
        assert kind.count == 0
        assert kind.retried is not None
        assert (kind.retried.unfinished or 0) >= 1
        [status] = await look.status(d.ledger)
        assert [(each.sample, each.class_) for each in status.largest_retried] == [("no", "failed")]
        await run.wait()
        assert (await look.status(d.ledger))[0].largest_retried == (), "it is finished"
        [kind] = await run.failures()
        assert (kind.count, kind.number) == (3, 1)
        assert kind.retried is not None
        assert (kind.retried.count, kind.retried.unfinished) == (6, 0)


async def test_what_a_job_had_failed_with_is_kept_when_a_person_tries_it_again(tmp_path: Path) -> None:
    executions = itertools.count()

    def work(raw: bytes, _: int) -> Answer:
        return Answer(output=raw) if next(executions) else Answer(error="no such file")

    async with desk(tmp_path, work=work) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions", max_attempts=1)
        await run.wait()
        await run.retry()
        await run.wait()
        [result] = [each async for each in run.results(order="input")]
        [failed] = (await job_show(d.ledger, "captions", result.custom_id)).failed_executions
        assert (failed.error, failed.attempt) == ("no such file", 1)
