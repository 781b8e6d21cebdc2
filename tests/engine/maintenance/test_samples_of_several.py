"""Samples of several processes on one ledger: each takes those of its endpoints, and nothing is lost or counted twice."""

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from tests.engine.several import JOBS, ONE, OTHER, Workplace, another, workplace

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]


SLOW = RunSettings(queue_depth=1)


class KilledError(Exception):
    """Ends an engine before it has taken its last sample."""


async def succeeded(ledger: Ledger) -> dict[int, int]:
    """As often as that by the latest sample of each endpoint, by its number."""
    found = await ledger.samples.endpoints.latest([1, 2])
    return {number: sample.ends.get("succeeded", 0) for number, sample in found.items()}


async def killed_half_way(w: Workplace, path: Path, run: Run) -> None:
    """Another process, in the second slot, sends part of `run`, takes a sample, and ends without a word some seconds
    later.
    """
    with suppress(BaseExceptionGroup, KilledError):
        async with another(path, w.service, w.clock) as killed:
            killed.ledger.samples.slot = killed.ledger.runs.heartbeats.slot = 1
            async with killed.at_work(run):
                while not (await succeeded(killed.ledger)).get(run.endpoint_id):  # noqa: ASYNC110  nothing tells of it
                    await anyio.sleep(0.5)
                await killed.until(run, State.SUCCEEDED, (await killed.count(run, State.SUCCEEDED)) + 3)
                raise KilledError


async def test_what_one_did_after_its_last_sample_is_counted_once_by_whoever_goes_on_while_others_sampled(
    tmp_path: Path,
) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w:
        one, other = await w.a_run(ONE, SLOW), await w.a_run(OTHER, SLOW)
        async with w.at_work(one, is_keeper=True):
            await killed_half_way(w, path, other)
            done = await w.count(other, State.SUCCEEDED)
            assert 0 < (await succeeded(w.ledger))[other.endpoint_id] < done < JOBS
            await w.until(one, State.SUCCEEDED, JOBS)
            await anyio.sleep(30)
            async with w.at_work(other):
                await w.until(other, State.SUCCEEDED, JOBS)
        assert await succeeded(w.ledger) == {one.endpoint_id: JOBS, other.endpoint_id: JOBS}

        async with w.at_work(one, other, is_keeper=True):
            await anyio.sleep(30)
        assert await succeeded(w.ledger) == {one.endpoint_id: JOBS, other.endpoint_id: JOBS}
        latest = await w.ledger.samples.latest_of_processes()
        assert {slot: each.begins for slot, each in latest.items()}[0] == 1


async def test_what_one_did_that_had_sampled_before_anything_happened_at_all_is_counted_by_whoever_goes_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "l.db"
    async with workplace(path) as w:
        one, other = await w.a_run(ONE, SLOW), await w.a_run(OTHER, SLOW)
        with suppress(BaseExceptionGroup, KilledError):
            async with another(path, w.service, w.clock) as killed:
                killed.ledger.samples.slot = killed.ledger.runs.heartbeats.slot = 1
                async with killed.at_work(other):
                    await killed.until(other, State.SUCCEEDED, 3)
                    raise KilledError
        assert await succeeded(w.ledger) == {other.endpoint_id: 0}
        async with w.at_work(one, is_keeper=True):
            await w.until(one, State.SUCCEEDED, JOBS)
            await anyio.sleep(30)
            async with w.at_work(other):
                await w.until(other, State.SUCCEEDED, JOBS)
        assert await succeeded(w.ledger) == {one.endpoint_id: JOBS, other.endpoint_id: JOBS}
