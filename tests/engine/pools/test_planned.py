"""What is planned of a pool is what then happens: when it ends, what each member takes, and what that costs."""

from pathlib import Path

import pytest

from orchestrator.core.planning.bottlenecks import SendingLimits
from orchestrator.core.planning.forecast import ExecutionSample, Workers
from orchestrator.core.planning.pool_forecast import EndpointWay, PoolRule, pool_forecast
from orchestrator.core.pools.member import MemberSettings, Prefer
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import MINUTE_US, SECOND_US
from tests.engine.pools.pooled import MIDDLE, QUICK, SLOW, SPEEDS, pooled
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

JOBS, SECONDS = 700, 5
WITHIN = 0.15
"""A plan may be off by so much, as of one endpoint."""

MEMBERS = (MemberSettings(SLOW, 0.1), MemberSettings(MIDDLE, 0.2), MemberSettings(QUICK, 0.4))

TOGETHER_S = JOBS * SECONDS / sum(SPEEDS.values())


@pytest.mark.parametrize(
    ("prefer", "spill_s", "finish_s"),
    [
        (Prefer.FAST, 120, None),
        (Prefer.CHEAP, 30, None),
        (Prefer.CHEAP, 36_000, 2 * TOGETHER_S),
        (Prefer.CHEAP, 36_000, 4 * TOGETHER_S),
    ],
)
async def test_a_pool_goes_as_it_was_planned(
    tmp_path: Path, prefer: Prefer, spill_s: int, finish_s: float | None
) -> None:
    clock = VirtualClock()
    finish_us = None if finish_s is None else round(finish_s * SECOND_US)
    times = ExecutionSample(executions_us=(SECONDS * SECOND_US,))
    ways = [
        EndpointWay(line=SendingLimits(trip_us=60_000), workers=Workers(most=n, warm=n), times=times)
        for n in SPEEDS.values()
    ]
    rule = PoolRule(prefer=prefer, spill_after_us=spill_s * SECOND_US, finish_within_us=finish_us)
    planned = pool_forecast(JOBS, ways, rule)
    settings = RunSettings(
        members=MEMBERS,
        prefer=prefer,
        spill_after_us=spill_s * SECOND_US,
        finish_by=0 if finish_us is None else clock.now() + finish_us,
    )
    async with pooled(tmp_path, SPEEDS, jobs=JOBS, seconds=SECONDS, settings=settings, clock=clock) as pool:
        took_s = await pool.run()
        done = await pool.done_at()
    assert planned.whole.likely.finished_us / SECOND_US == pytest.approx(took_s, rel=WITHIN)
    assert took_s * SECOND_US <= (finish_us or MINUTE_US * 60) * 1.03
    taken = [0 if each is None else each.jobs for each in planned.likely]
    assert taken == [pytest.approx(done[name], abs=WITHIN * JOBS) for name in SPEEDS]
    prices = [each.price_per_second or 0.0 for each in MEMBERS]
    cost = sum(SECONDS * n * price for n, price in zip(taken, prices, strict=True))
    came = sum(SECONDS * done[each.endpoint] * (each.price_per_second or 0.0) for each in MEMBERS)
    assert cost == pytest.approx(came, rel=WITHIN)
