"""What `doctor` says of runs, by their ledger and the heartbeat of the process at work: each cause, made for real."""

import re
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.api.runs.process_commands import retry
from orchestrator.core.diagnosis import ledger_rules, limit_rules, run_rules
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.gates import gates
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.emulator.contract.faults import Faults
from orchestrator.ledger import dispatcher_lock
from orchestrator.settings.command_requests import ControlAction
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from tests.engine.doctored import Patient
from tests.engine.scripted import FAILED, Scripted, numbered, says
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Unplugged:
    """Whether the way to the service is cut."""

    is_on = False

    def __call__(self) -> bool:
        return self.is_on


def slow(_: object) -> float:
    return 600.0


@pytest.mark.slow
async def test_nothing_is_found_of_a_run_that_goes_on_and_of_one_that_has_ended(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=5, seconds=lambda _: 10.0)
    patient = Patient(tmp_path, clock, service.transport())
    assert (await patient.diagnosis()).findings == (), "a ledger without a run"
    async with service.serving(), patient.at_work(jobs=50):
        await anyio.sleep(0.5)
        assert (await patient.diagnosis()).findings == (), "it has just begun"
        await anyio.sleep(30)
        diagnosis = await patient.diagnosis()
        assert (diagnosis.findings, diagnosis.runs, diagnosis.needs_person) == ((), 1, False)
        assert await patient.shown() is None
        await anyio.sleep(100)
        diagnosis = await patient.diagnosis("in")
        assert (diagnosis.findings, diagnosis.runs) == ((), 0)
    assert (await patient.diagnosis()).findings == (), "it has ended, and nobody need work"


async def test_a_retry_that_waits_for_the_next_process_is_said_until_one_has_done_it(tmp_path: Path) -> None:
    clock, script = VirtualClock(), Scripted(run=numbered(), status=lambda _: FAILED)
    patient = Patient(tmp_path, clock, script)
    settings = RunSettings(max_attempts=1)
    async with patient.at_work(jobs=3, settings=settings):
        await anyio.sleep(30)
    assert (await patient.causes(), await patient.shown()) == ([], None)
    await retry(patient.path, "in", patient.around)
    [finding] = (await patient.diagnosis()).findings
    assert (finding.cause, finding.sentence, finding.needs_person) == (Cause.NO_PROCESS, ledger_rules.ASKED, True)
    assert finding.advice == f"orchestrator resume in --ledger {patient.path}"
    assert await patient.shown() == ledger_rules.ASKED
    script.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
    async with patient.at_work(jobs=3, settings=settings):
        await anyio.sleep(30)
    assert (await patient.causes(), await patient.shown()) == ([], None)


async def test_a_rate_limit_that_binds_is_said_and_needs_nobody(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=500)
    patient = Patient(tmp_path, clock, service.transport(travel_s=lambda: 0.03))
    async with service.serving(), patient.at_work(jobs=100, limits={Operation.RUN: Limit(20, 10, 20)}):
        await anyio.sleep(31)
        diagnosis = await patient.diagnosis()
        [finding] = diagnosis.findings
        assert (finding.cause, finding.needs_person, diagnosis.needs_person) == (Cause.RATE_LIMIT, False, False)
        assert "requests in this window, 0 answered 429" in finding.evidence[0]


@pytest.mark.slow
async def test_429s_that_our_rate_does_not_cause_are_found(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=500, faults=Faults(throttled=0.15))
    patient = Patient(tmp_path, clock, service.transport(travel_s=lambda: 0.03))
    async with service.serving(), patient.at_work(jobs=700, limits={Operation.RUN: Limit(200, 10, 20)}):
        await anyio.sleep(45)
        finding = (await patient.diagnosis()).findings[0]
        assert (finding.cause, finding.needs_person) == (Cause.STRAY_REFUSALS, False)
        assert re.match(r"[\d.]+% of the requests to /(run|status): ", finding.evidence[0])
        assert await patient.shown() == limit_rules.STRAY_429S


async def test_concurrency_that_binds_is_told_from_the_rate(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=500)
    patient = Patient(tmp_path, clock, service.transport(travel_s=lambda: 2.0))
    async with service.serving(), patient.at_work(jobs=200, limits={Operation.RUN: Limit(1000, 10, 4)}):
        await anyio.sleep(31)
        [finding] = (await patient.diagnosis()).findings
        assert finding.cause is Cause.CONCURRENCY
        assert "4 of 4 requests at once" in finding.evidence[0]


async def test_a_queue_that_is_full_at_the_service_is_told_from_the_rate(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=5, seconds=slow, faults=Faults(throttled=1.0))
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving(), patient.at_work(jobs=200):
        await anyio.sleep(20)
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.sentence) == (Cause.QUEUE_FULL, gates.QUEUE_FULL)
        assert await patient.shown() == gates.QUEUE_FULL


async def test_as_many_outstanding_as_can_be_collected_is_said(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=5, seconds=slow)
    patient = Patient(tmp_path, clock, service.transport())
    limits = {Operation.STATUS: Limit(1, 10, 1)}
    async with service.serving(), patient.at_work(jobs=300, limits=limits, settings=RunSettings(breaker=OFF)):
        await anyio.sleep(60)
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.sentence) == (Cause.OUTSTANDING_BOUND, gates.OUTSTANDING)


async def test_a_paused_run_says_what_the_display_says_and_waits_for_a_person(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=slow)
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving(), patient.at_work(jobs=30, settings=RunSettings(queue_depth=5)):
        await anyio.sleep(10)
        await patient.action(ControlAction.PAUSE)
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.sentence, finding.advice) == (
            Cause.PAUSED,
            gates.PAUSED,
            f"orchestrator unpause in --ledger {patient.path}",
        )
        assert (await patient.diagnosis()).needs_person
        assert await patient.shown() == gates.PAUSED
        await patient.action(ControlAction.CANCEL)
        await anyio.sleep(10)
        assert await patient.causes() == [], "a cancelled run is to come to nothing"


class Refusing(httpx.AsyncBaseTransport):
    """Answers each `/run` with `status`, from when that is set; everything else goes on."""

    def __init__(self, onward: httpx.AsyncBaseTransport) -> None:
        self.onward = onward
        self.status: int | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.status is not None and request.url.path.endswith("/run"):
            return httpx.Response(self.status, content=b"{}")
        return await self.onward.handle_async_request(request)


@pytest.mark.parametrize(
    ("status", "cause"),
    [(403, Cause.KEY_REFUSED), pytest.param(404, Cause.ENDPOINT_UNKNOWN, marks=pytest.mark.slow)],
)
async def test_what_stops_the_sending_is_tried_for_a_minute_and_then_said(
    status: int, cause: Cause, tmp_path: Path
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=2, seconds=lambda _: 100.0)
    way = Refusing(service.transport())
    patient = Patient(tmp_path, clock, way)
    async with service.serving(), patient.at_work(jobs=30, settings=RunSettings(queue_depth=5)):
        await anyio.sleep(90)
        way.status = status
        await anyio.sleep(40)
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.sentence, finding.needs_person) == (Cause.TRYING, gates.REFUSED, False)
        await anyio.sleep(60)
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.needs_person) == (cause, True)
        assert finding.sentence == await patient.shown()
        assert finding.sentence.startswith(f"{gates.STOPPED}: {POINTLESS[status]}")
        assert (run_rules.READABLE in finding.evidence) is (status == 403)
        for _ in range(6):
            await anyio.sleep(10)  # meanwhile `/health` is good, so that single ones are tried again
            assert (await patient.causes())[0] is cause
    if status == 403:
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.sentence) == (cause, await patient.shown()), "nobody works any more"
        assert "submissions were answered so" in finding.evidence[0]
    else:
        assert await patient.causes() == [Cause.NO_PROCESS], "the endpoint is there, as it says itself"


@pytest.mark.slow
async def test_a_service_out_of_reach_comes_before_results_that_expire_of_it(tmp_path: Path) -> None:
    clock, unplugged = VirtualClock(), Unplugged()
    service = SimulatedService(clock, workers=1, seconds=slow)
    patient = Patient(tmp_path, clock, service.transport(down=unplugged))
    settings = RunSettings(queue_depth=2, retention_us=720_000_000)
    async with service.serving(), patient.at_work(jobs=10, settings=settings):
        await anyio.sleep(30)
        unplugged.is_on = True
        await anyio.sleep(60)
        assert (await patient.causes())[0] is Cause.UNREACHABLE
        assert Cause.RESULTS_EXPIRE not in await patient.causes()
        await anyio.sleep(120)
        assert (await patient.causes())[:2] == [Cause.UNREACHABLE, Cause.RESULTS_EXPIRE]
        unplugged.is_on = False
        await anyio.sleep(60)
        assert await patient.causes() == []


async def test_without_a_process_open_runs_wait_and_later_their_results_expire(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=slow)
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving():
        async with patient.at_work(jobs=30, settings=RunSettings(queue_depth=5)):
            await anyio.sleep(30)
        [finding] = (await patient.diagnosis()).findings
        assert (finding.cause, finding.advice) == (Cause.NO_PROCESS, f"orchestrator resume in --ledger {patient.path}")
        assert await patient.shown() == ledger_rules.NOBODY
        await anyio.sleep(1_500)
        assert await patient.causes() == [Cause.RESULTS_EXPIRE, Cause.NO_PROCESS]
        assert await patient.shown() == ledger_rules.EXPIRING
        await anyio.sleep(1_500)
        assert "some may be gone already" in (await patient.diagnosis()).findings[0].evidence[0]


async def test_a_process_that_holds_the_ledger_and_says_nothing_is_found(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=slow)
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving():
        async with patient.at_work(jobs=30):
            await anyio.sleep(30)
        with dispatcher_lock(patient.path, now=clock.now()):
            await anyio.sleep(3_600)
            [*_, finding] = reversed((await patient.diagnosis()).findings)
            assert (finding.cause, finding.sentence) == (Cause.LEDGER_IN_USE, ledger_rules.SILENT)
            assert "it has said nothing for" in finding.evidence[0]


async def test_a_run_whose_service_has_no_key_here_is_held_and_says_so(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=1, seconds=slow)
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving():
        async with patient.at_work(jobs=30, settings=RunSettings(queue_depth=5)):
            await anyio.sleep(30)
        async with patient.served(ConnectionSettings(serverless_url="http://another", api_key="key")):
            await anyio.sleep(30)
            finding = (await patient.diagnosis()).findings[0]
            assert (finding.cause, finding.about, finding.needs_person) == (Cause.RUN_BLOCKED, "in", True)
            assert finding.sentence == await patient.shown()
            assert "has no API key for http://service" in finding.sentence


@pytest.mark.slow
async def test_webhooks_that_do_not_come_are_said_by_status_too(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=30, seconds=lambda _: 20.0)
    patient = Patient(tmp_path, clock, service.transport())
    async with service.serving(), patient.at_work(jobs=130, webhooks=True):
        await anyio.sleep(15)
        assert await patient.shown() is None
        await anyio.sleep(60)
        assert await patient.shown() == run_rules.WEBHOOKS_MISSING
        key = patient.path.with_name("ledger.db.key")
        key.unlink()
        key.mkdir()
        found = await patient.diagnosis()
        assert [finding.cause for finding in found.findings] == [Cause.WEBHOOK_UNREACHABLE]
        assert [each for each in found.not_asked if "cannot keep the webhook key" in each], "there is no self-test then"
