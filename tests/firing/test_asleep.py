"""A machine that sleeps, or whose clock is set back, between two looks: every overlap with every catch-up."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.overlap_policy import WAITING_MAX
from orchestrator.core.pipelines.pipeline import Overlap, Pipeline
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.units import HOUR_US, MINUTE_US
from tests.firing.places import misplaced
from tests.firing.weeks import Wall
from tests.ledger.ledgers import opened
from tests.ledger.pipelines import a_pipeline, applied, every
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOURS = {59 * MINUTE_US: 1, 25 * HOUR_US: 25, 8 * 24 * HOUR_US: 192}
"""How long it sleeps, and how many hourly fires that takes."""

CATCH_UPS_H = (0.5, 24, 24 * 9)


def due_in(catch_up_h: float, fires: int, overdue_us: int) -> int:
    """How many of the fires are not older than that: the latest is overdue for `overdue_us`, each before an hour more."""
    return sum(n * HOUR_US + overdue_us <= catch_up_h * HOUR_US for n in range(fires))


def pipelines() -> Iterator[tuple[Pipeline, Overlap, float]]:
    """One that fires each hour for every overlap and every catch-up."""
    for overlap, catch_up_h in product(Overlap, CATCH_UPS_H):
        schedule = every(1, overlap, catch_up_h=catch_up_h)
        yield a_pipeline(f"{overlap}-{round(60 * catch_up_h)}", schedule), overlap, catch_up_h


@pytest.mark.parametrize("asleep_us", HOURS)
async def test_after_a_sleep_each_rule_holds_for_what_came_meanwhile(asleep_us: int, tmp_path: Path) -> None:
    """It falls asleep 30 minutes after a fire, whose flow runs; so it awakes 29 or 30 minutes after the last one."""
    wall = Wall(EPOCH_AT)
    heard: list[str] = []
    async with opened(tmp_path / "l.db", clock=wall) as ledger:
        all_of = [(await applied(ledger, each, now=wall.at), rule, h) for each, rule, h in pipelines()]
        looker = ScheduleEvaluator(ledger=ledger, say=heard.append, warn=heard.append)
        wall.at += HOUR_US
        await looker.look(wall.at)
        running = [flow.id for flow in await ledger.flows.live()]
        assert len(running) == len(all_of)
        await ledger.flows.start(running)
        wall.at += 30 * MINUTE_US + asleep_us
        await looker.look(wall.at)

        fires, overdue_us = HOURS[asleep_us], (30 * MINUTE_US + asleep_us) % HOUR_US
        for of, overlap, catch_up_h in all_of:
            due = due_in(catch_up_h, fires, overdue_us)
            gaps = await ledger.flows.fires.gaps(of.id, 9)
            assert [gap.n for gap in gaps] == [fires - due] * (fires > due)
            assert any("missed" in line and line.startswith(of.name) for line in heard) == (fires > due)
            await check(ledger, of, overlap, due)
            every_fire = [EPOCH_AT + n * HOUR_US for n in range(1, fires + 2)]
            assert await misplaced(ledger, of, every_fire) == []


async def check(ledger: Ledger, of: Defined, overlap: Overlap, due: int) -> None:
    """What has become of the latest `due` fires, which met a flow that runs."""
    rows = (await ledger.flows.fires.latest(of.id, 1_000))[:due]
    before, *flows = [flow for flow in await ledger.flows.live() if flow.pipeline == of.id]
    waiting = {Overlap.QUEUE: min(due, WAITING_MAX), Overlap.SKIP: 0}.get(overlap, min(due, 1))
    assert len(flows) == waiting
    assert all(flow.state is FlowState.WAITING for flow in flows)
    assert sum(row.skipped is not None for row in rows) == due - waiting
    if overlap in (Overlap.LATEST, Overlap.REPLACE) and due:
        assert flows[0].fire_at == rows[0].fire_at  # the newest
    if overlap is Overlap.QUEUE and due:
        assert flows[0].fire_at == rows[-1].fire_at  # the oldest
    assert before.is_cancelled == (overlap is Overlap.REPLACE and due > 0)


async def test_a_clock_that_is_set_back_fires_nothing_twice_and_is_told_once(tmp_path: Path) -> None:
    wall = Wall(EPOCH_AT)
    heard: list[str] = []
    async with opened(tmp_path / "l.db", clock=wall) as ledger:
        all_of = [await applied(ledger, each, now=wall.at) for each, *_ in pipelines()]
        looker = ScheduleEvaluator(ledger=ledger, say=heard.append, warn=heard.append)
        for hours in (5.1, 3.1, 3.1, 4.2, 6.1):
            wall.at = EPOCH_AT + round(hours * HOUR_US)
            await looker.look(wall.at)
        told = [line for line in heard if "the clock is over an hour behind the time of the last look" in line]
        assert sorted(line.partition(":")[0] for line in told) == sorted(of.name for of in all_of)
        every_fire = [EPOCH_AT + n * HOUR_US for n in range(1, 7)]
        for of in all_of:
            assert await misplaced(ledger, of, every_fire) == []
            assert len(await ledger.flows.fires.latest(of.id, 99)) >= 2
