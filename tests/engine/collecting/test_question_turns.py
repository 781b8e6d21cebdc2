"""How many questions it takes to collect: by polling alone, with webhooks, and with webhooks that do not arrive."""

import random
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.core.polling.webhook_health import WebhookHealth
from orchestrator.core.service.job_record import Record
from orchestrator.views.status import CollectedBy
from tests.engine.process import Process, process
from tests.engine.scripted import Scripted
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 150
"""So many that what the first ones teach serves the others."""


def lasting(rng: random.Random) -> float:
    return rng.uniform(5.0, 15.0)


async def collected(p: Process) -> float:
    """Questions for each job, once all have their results."""
    await p.begin()
    await p.finish()
    assert await p.counts() == {"succeeded": JOBS}
    return p.api.limiter.figures(Operation.STATUS).sent / JOBS


@pytest.mark.slow
async def test_with_questions_to_spare_polling_takes_about_five_for_each_job(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=JOBS, seconds=lasting)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(travel_s=lambda: 0.05), clock=clock, jobs=JOBS) as p,
    ):
        assert await collected(p) <= 6.5  # 4 to 6.1, by what is drawn


async def test_a_lone_job_is_collected_soon_although_the_two_before_it_took_twice_as_long(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=lambda _: 45.0)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(travel_s=lambda: 0.05), clock=clock, jobs=1) as p,
    ):
        for _ in range(2):
            p.endpoint.estimates.durations.observe(100, 90_000)
        begun_at = clock.now()
        await p.begin()
        await p.finish()
        assert 45 <= (clock.now() - begun_at) / 1_000_000 <= 45 * 1.05 + 0.5


async def test_a_job_that_has_waited_in_a_queue_is_asked_for_by_when_the_service_says_that_it_began(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=lambda _: 60.0)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(travel_s=lambda: 0.05), clock=clock, jobs=3) as p,
    ):
        for _ in range(500):
            p.endpoint.estimates.durations.observe(0, 60_000)
        begun_at = clock.now()
        await p.begin()
        await p.finish()
        assert 180 <= (clock.now() - begun_at) / 1_000_000 <= 184
        assert p.api.limiter.figures(Operation.STATUS).sent <= 4 * 3


@pytest.mark.slow
async def test_with_healthy_webhooks_one_job_in_twenty_is_asked_for_at_most(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=JOBS, seconds=lasting)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(), clock=clock, jobs=JOBS, webhooks=True) as p,
        httpx.AsyncClient(transport=httpx.ASGITransport(app=p.listener)) as client,
    ):

        async def receive(url: str, body: bytes) -> int:
            return (await client.post(url, content=body)).status_code

        service.receiver = receive
        assert await collected(p) <= 0.05
        assert p.endpoint.estimates.webhook_health.healthy


@pytest.mark.slow
async def test_where_no_webhook_arrives_results_are_asked_for_and_the_user_is_told_once(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=30, seconds=lasting)
    async with (
        service.serving(),
        process(tmp_path / "db", service.transport(), clock=clock, jobs=JOBS, webhooks=True) as p,
    ):
        assert await collected(p) <= 3.0
        assert [line for line in p.warnings if "only 0% of the webhooks arrive" in line] == p.warnings
        assert len(p.warnings) == 1
        assert not p.endpoint.estimates.webhook_health.healthy


@pytest.mark.slow
async def test_when_webhooks_come_again_results_are_left_to_them_again_and_the_user_is_told(tmp_path: Path) -> None:
    jobs, clock = 440, VirtualClock()  # it takes 350 or so to come to trust them again
    service = SimulatedService(clock, workers=40, seconds=lambda rng: rng.uniform(1.0, 3.0))
    async with (
        service.serving(),
        process(
            tmp_path / "db",
            service.transport(),
            clock=clock,
            jobs=jobs,
            limits={**CONTRACT_LIMITS, Operation.RUN: Limit(100, 10, 100)},
            webhooks=True,
        ) as p,
        httpx.AsyncClient(transport=httpx.ASGITransport(app=p.listener)) as client,
    ):

        async def receive(url: str, body: bytes) -> int:
            return (await client.post(url, content=body)).status_code

        def asked() -> int:
            return p.api.limiter.figures(Operation.STATUS).sent

        await p.begin()
        await p.wait(lambda: not p.endpoint.estimates.webhook_health.healthy)
        modes = [p.endpoint.estimates.collected_by]
        assert asked() >= WebhookHealth.ENOUGH
        service.receiver = receive
        await p.wait(lambda: p.endpoint.estimates.webhook_health.healthy)
        assert [*modes, p.endpoint.estimates.collected_by] == [CollectedBy.POLLING_INSTEAD, CollectedBy.WEBHOOKS]
        finished = p.progress.count("succeeded")
        await p.wait(lambda: p.progress.count("succeeded") >= finished + 30)
        finished, before = p.progress.count("succeeded"), asked()
        await p.finish()
        assert asked() - before <= 0.05 * (jobs - finished)
        assert await p.counts() == {"succeeded": jobs}
        first, second = p.warnings
        assert first.startswith("only 0% of the webhooks arrive: results are asked for instead")
        assert second.endswith("% of the webhooks arrive: results are left to them again")


async def test_jobs_that_an_earlier_process_sent_tell_nothing_of_our_webhooks(tmp_path: Path) -> None:
    record = Record(remote_id="r", status="COMPLETED", output=b"1")
    async with process(tmp_path / "db", Scripted(), webhooks=True) as p:
        began_at = p.endpoint.estimates._began_at
        await anyio.sleep(1)
        for submission, healthy in ((began_at - 1, True), (began_at + 1, False)):
            job = Job(id=1, run=p.run.id, endpoint=p.run.endpoint_id, state=State.OUTSTANDING, submission=submission)
            for _ in range(WebhookHealth.ENOUGH):
                p.endpoint.estimates.finished(job, record, p.clock.now())
            assert p.endpoint.estimates.webhook_health.healthy is healthy
    assert len(p.warnings) == 1
