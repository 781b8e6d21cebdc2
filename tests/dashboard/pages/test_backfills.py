"""A backfill under way: one line with how far it is, how fast, until when, and what it has spent."""

from pathlib import Path
from typing import Final

import anyio
import msgspec
import pytest

from orchestrator.api.flows.backfills import backfill_lines
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.ledger.flows.flow_actions import MadeUp
from orchestrator.units import HOUR_US, SECOND_US
from tests.dashboard.harness import dashboard
from tests.engine.flowing import Flowing, a_pipeline, accepting, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FLOWS: Final = 6
PRICE: Final = 0.01
EXECUTION_MS: Final = 2_000


def service() -> Scripted:
    """Completes each job 40 s after it was sent; nine of its jobs, and then no more."""
    sent: dict[str, float] = {}
    accept = accepting()

    def taken(asked: Asked) -> Reply:
        reply = accept(asked)
        sent[f"r-{len(sent) + 1}"] = asked.at_s
        return reply

    def stands(asked: Asked) -> Reply:
        if asked.at_s - sent[asked.remote_id] < 40 or int(asked.remote_id[2:]) > 9:
            return says("IN_PROGRESS", asked.remote_id)
        return says("COMPLETED", asked.remote_id, output=1, delayTime=10, executionTime=EXECUTION_MS)

    return Scripted(run=taken, status=stands)


def priced(folder: Path) -> Pipeline:
    found = a_pipeline(folder)
    [stage] = found.stages
    priced = {**stage.settings, "price-per-second": (str(PRICE),)}
    return msgspec.structs.replace(found, stages=(msgspec.structs.replace(stage, settings=priced),))


async def asked_for(p: Flowing, folder: Path) -> None:
    of = await applied(p.ledger, priced(folder), now=p.ledger.now())
    fires = [EPOCH_AT - n * HOUR_US for n in range(1, FLOWS + 1)]
    made = MadeUp(parallel=2)
    await p.ledger.flows.add(of.id, "p", of.definition, fires, FlowKind.BACKFILL, made_up=made)
    p.scheduler.on_change()


@pytest.mark.slow
async def test_a_backfill_says_how_far_it_is_and_when_it_will_be_done(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with flowing(tmp_path, transport=service(), clock=clock) as p:
        await asked_for(p, tmp_path)
        assert [line.eta_at for line in await backfill_lines(p.ledger, "process 7")] == [None], "none has ended yet"
        await anyio.sleep(95)
        [line] = await backfill_lines(p.ledger, "process 7")
        assert (line.name, line.standing, line.flows, line.ended) == ("p", "running", FLOWS, 4)
        assert (line.running, line.waiting, line.total, line.done) == (2, 0, 12, 8)
        assert line.jobs_per_s == pytest.approx(4 / 55, rel=0.1), "two flows of two jobs were of the last minute"
        assert line.spent is not None
        assert line.spent.amount == pytest.approx(8 * EXECUTION_MS / 1_000 * PRICE)
        assert line.safe_offline_s is not None
        assert line.eta_at is not None
        assert 0 < line.eta_at - p.ledger.now() < 40 * SECOND_US, "two of six are under way, 40 s each"
        await anyio.sleep(60)
        [held_up] = await backfill_lines(p.ledger, "process 7")
        assert (held_up.ended, held_up.eta_at) == (4, None), "one takes longer than those before"
        [unmanned] = await backfill_lines(p.ledger, None)
        assert (unmanned.eta_at, unmanned.jobs_per_s) == (None, None)
        assert await backfill_lines(p.ledger, None, pipeline=99) == []
    path = tmp_path / "l.db"
    async with dashboard(path, clock=clock) as site:
        for page in ("/", "/pipelines", "/pipelines/1"):
            assert "4 of 6 flows" in (await site.get(page)).text
        flow = await site.json("/flows/1")
        assert flow["backfill"]["flows"] == FLOWS
        text = (await site.get("/flows/1")).text
    assert "Of those that have begun, 9 of 12 jobs are over." in text
    assert f"spent {9 * EXECUTION_MS / 1_000 * PRICE:.2f}" in text


async def test_of_too_many_runs_only_the_flows_are_counted(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        await asked_for(p, tmp_path)
        await anyio.sleep(10)
        [few] = await backfill_lines(p.ledger, "process 7", runs_max=2)
        [many] = await backfill_lines(p.ledger, "process 7", runs_max=1)
    assert (few.running, few.total, many.running, many.total, many.spent) == (2, 4, 2, None, None)
