"""Whole runs against the emulated service: nothing is late, nothing is paid twice."""

import random
from pathlib import Path

import pytest

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import JobOperation as ServiceOperation
from orchestrator.emulator.contract.limits import OperationLimit as ServiceLimit
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import process, reached_by_webhooks
from tests.simulation.clock import VirtualClock
from tests.simulation.loop import running_loop
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import ENDPOINT, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

RETENTION_S = 20.0
LIMITS = {**CONTRACT_LIMITS, Operation.RUN: Limit(500, 10, 200), Operation.STATUS: Limit(250, 10, 200)}
"""Twice as many submissions as questions: those are as scarce as they can be."""

SERVICE_LIMITS = {
    ServiceOperation.RUN: ServiceLimit(requests=500, concurrent=200),
    ServiceOperation.STATUS: ServiceLimit(requests=250, concurrent=200),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "is_down"),
    [
        (Faults(), True),
        (Faults(lost_webhook=0.3), False),
        (Faults(duplicate_webhook=1.0), False),
    ],
    ids=["listener down", "30 % of the webhooks lost", "every webhook twice"],
)
async def test_whatever_happens_to_the_webhooks_all_results_arrive_before_their_retention(
    tmp_path: Path, faults: Faults, is_down: bool
) -> None:
    jobs, clock = 250, VirtualClock()  # to ask for each twice takes all the time that it is kept
    service = SimulatedService(
        clock,
        workers=250,
        seconds=lambda rng: rng.uniform(0.5, 2.0),
        retention_s=RETENTION_S,
        faults=faults,
        limits=SERVICE_LIMITS,
    )
    settings = RunSettings(retention_us=round(RETENTION_S * 1e6))
    chance = running_loop().random
    travel_s = lambda: chance.uniform(0.01, 0.1)  # noqa: E731
    async with (
        service.serving(),
        process(
            tmp_path / "db",
            service.transport(travel_s=travel_s),
            clock=clock,
            jobs=jobs,
            settings=settings,
            limits=LIMITS,
            webhooks=True,
        ) as p,
        reached_by_webhooks(p, service, SimulatedTransport(p.listener, travel_s=travel_s, down=lambda: is_down)),
    ):
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": jobs}
        assert service.paid == service.counts.submitted.total() == jobs
        assert p.progress.margin_min_s is not None
        assert p.progress.margin_min_s > 0
        for operation in (ServiceOperation.RUN, ServiceOperation.STATUS):
            assert service.gate.meters.figures(ENDPOINT, operation).refused == 0


@pytest.mark.parametrize("webhooks", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_lost_answers_are_paid_again_only_where_nobody_told_of_them(tmp_path: Path, webhooks: bool) -> None:
    jobs, clock = 120, VirtualClock()
    service = SimulatedService(clock, seed=5, workers=40, faults=Faults(lost_answer=0.05))
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(), clock=clock, jobs=jobs, webhooks=webhooks) as p,
        reached_by_webhooks(p, service),
    ):
        await p.begin()
        await p.finish()
        counts = await p.counts()
        assert counts["succeeded"] == jobs
        assert counts["uncertain_seen"] >= 3
        resubmitted = counts.get("uncertain_resubmitted", 0)
        assert service.paid == jobs + resubmitted
        if webhooks:
            assert counts["uncertain_adopted"] == counts["uncertain_seen"]
            assert resubmitted == 0
        else:
            assert resubmitted == counts["uncertain_seen"]


@pytest.mark.slow
async def test_failing_handlers_and_a_retry_that_races_nothing(tmp_path: Path) -> None:
    clock, chance = VirtualClock(), random.Random(3)
    service = SimulatedService(clock, seed=3, workers=50, faults=Faults(handler_error=0.3, server_error=0.05))
    async with (
        service.serving(),
        process(
            tmp_path / "db",
            service.transport(travel_s=lambda: chance.uniform(0, 0.2)),
            clock=clock,
            jobs=100,
            settings=RunSettings(max_attempts=3),
        ) as p,
    ):
        await p.begin()
        await p.finish()
        counts = await p.counts()
        assert counts["succeeded"] + counts["failed"] == 100
        assert all(job.attempts >= 3 and job.trouble == "failed" for job in await p.failures())
        assert service.paid <= sum(job.paid_at_most for job in [*await p.results(), *await p.failures()])
