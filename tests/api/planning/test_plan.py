"""A plan as users get it: of an input, of what the ledger knows, of a probe, and of how the endpoint is."""

from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.api.planning.plan import plan, spread
from orchestrator.client import Service
from orchestrator.core.gates.brake_gates import Canary
from orchestrator.core.gates.costs import Price
from orchestrator.core.planning.forecast import TimesSource
from orchestrator.core.planning.plan_types import Plan
from orchestrator.core.pools.member import MemberSettings, Prefer
from orchestrator.core.pools.member_health import THROTTLED
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.heartbeat import BEAT_S
from orchestrator.errors import InputError, NotSent, StoppedError, UsageError
from orchestrator.settings.command_requests import PlanFigures, PlanRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.api.desk import desk, numbers
from tests.api.runs.test_program import Silence, carried_out, request_in
from tests.engine.process import SAMPLE_EVERY_S
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def planned(
    request: PlanRequest,
    service: SimulatedService,
    clock: VirtualClock,
    console: Silence | None = None,
    stop: anyio.Event | None = None,
    **others: Any,
) -> Plan:
    around = Dependencies(
        clock=clock,
        environ={},
        service=lambda connection, clock: Service(
            connection.serverless_url, "key", clock, transport=service.transport()
        ),
        connect=async_creator,
        sample_every_s=SAMPLE_EVERY_S,
        say_every_s=BEAT_S,
        watch_every_s=BEAT_S,
        **others,
    )
    return await plan(request, console, around, stop)


async def test_of_a_new_endpoint_a_plan_knows_what_was_given_and_sends_nothing(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    asked = request_in(tmp_path, jobs=100)
    async with service.serving():
        found = await planned(PlanRequest(run=asked), service, clock)
        assert (found.rows, found.finish_s, found.known_from) == (100, None, None)
        figures = PlanFigures(execution_us=10 * SECOND_US, start_us=60 * SECOND_US)
        asked = replace(asked, settings=RunSettings(workers=5))
        found = await planned(PlanRequest(run=asked, figures=figures), service, clock)
    assert found.finish_s == pytest.approx(202, rel=0.05), "eight workers are up already"
    assert (found.workers, found.workers_from, found.known_from) == (5, "as given", TimesSource.GIVEN)
    assert service.paid == 0
    assert not (tmp_path / "ledger.db").exists(), "who only asks leaves nothing"


async def test_the_account_says_how_many_workers_there_may_be_and_what_they_cost(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    asked = PlanRequest(
        run=request_in(tmp_path, jobs=100),
        figures=PlanFigures(execution_us=10 * SECOND_US),
        workers_there=4,
        price_there=Price(0.5),
    )
    async with service.serving():
        found = await planned(asked, service, clock)
    assert (found.workers, found.workers_from) == (4, "as the account says")
    assert found.cost is not None
    assert found.cost.likely == pytest.approx(500)


@pytest.mark.slow
async def test_where_the_rows_go_that_were_sent_first_the_rest_is_planned_by_what_they_took(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, workers=4, seconds=lambda _: 20.0)
    asked = request_in(tmp_path, jobs=60)
    settings = RunSettings(canary=Canary(5), price_per_second=0.5)
    async with service.serving():
        begun_at = clock.now()
        await carried_out(replace(asked, settings=settings), service, clock, console)
    took_s = (clock.now() - begun_at) / SECOND_US
    assert [
        line for line in console.lines if line.startswith("in: the canary is back: 5 of 5 succeeded. They took 20 s")
    ]
    [told] = [line for line in console.lines if line.startswith("in: the rest: 55 jobs in about ")]
    assert "for about 550.00" in told
    assert 270 < took_s < 400


class Priced(RunEndpoints):
    """What workers cost there; None: one may not look."""

    def __init__(self, service: Service, rest_url: str, price: Price | None) -> None:
        super().__init__(service, rest_url)
        self._price = price

    async def price(self, endpoint: str) -> Price | None:
        if self._price is None:
            raise NotSent("403")
        return self._price


@pytest.mark.parametrize(
    ("there", "given", "told"),
    [
        (Price(0.5, "as the catalog says of an A40"), None, (0.5, "as the catalog says of an A40")),
        (Price(0.5, "as the catalog says of an A40"), 0.25, (0.25, "as given")),
        (None, None, None),
    ],
)
async def test_the_catalog_tells_what_a_second_costs_where_nobody_else_does(
    tmp_path: Path, there: Price | None, given: float | None, told: tuple[float, str] | None
) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    run = request_in(tmp_path, jobs=10)
    settings = RunSettings(price_per_second=given, workers=5)
    run = replace(run, connection=replace(run.connection, rest_url=URL), settings=settings)
    asked = PlanRequest(run=run, figures=PlanFigures(execution_us=10 * SECOND_US))
    async with service.serving():
        cost = (await planned(asked, service, clock, account=partial(Priced, price=there))).cost
    assert (None if cost is None else (cost.price_per_s, cost.price_from)) == told


async def test_of_a_pool_each_member_is_asked_how_it_is_and_has_its_price(tmp_path: Path) -> None:
    clock = VirtualClock()
    away = Scaling(workers_min=4, workers_max=4, machines=0)
    service = SimulatedService(clock, endpoints=(ENDPOINT, "dear", "away"), scaling={"away": away})
    members = (MemberSettings("dear", 0.3), MemberSettings("away", 0.2), MemberSettings(ENDPOINT, 0.1))
    settings = RunSettings(prefer=Prefer.CHEAP, spill_after_us=60 * SECOND_US, workers=5)
    run = replace(request_in(tmp_path, jobs=200), members=members, settings=settings)
    figures = PlanFigures(execution_us=10 * SECOND_US)
    async with service.serving():
        await anyio.sleep(60)
        found = await planned(PlanRequest(run=run, figures=figures), service, clock)
    assert [each.endpoint for each in found.members] == [ENDPOINT, "away", "dear"], "cheapest first"
    assert [each.unwell for each in found.members] == [None, THROTTLED, None]
    cheap, _, dear = (each.jobs for each in found.members)
    assert cheap + dear == 200
    assert cheap > dear > 50
    assert found.cost is not None
    assert found.cost.likely == pytest.approx(cheap * 10 * 0.1 + dear * 10 * 0.3)


@pytest.mark.slow
async def test_a_run_tells_how_it_will_go_once_the_endpoint_is_known(tmp_path: Path) -> None:
    clock, first, second = VirtualClock(), Silence(), Silence()
    service = SimulatedService(clock, workers=4, seconds=lambda _: 20.0)
    asked = request_in(tmp_path, jobs=40)
    async with service.serving():
        await carried_out(asked, service, clock, first)
        again = await planned(PlanRequest(run=asked), service, clock)
        other = replace(asked, name="other", output=None, errors=None)
        told = await planned(PlanRequest(run=other), service, clock)
        begun_at = clock.now()
        await carried_out(other, service, clock, second)
    assert not any("jobs in about" in line for line in first.lines)
    assert (again.verdict, again.done) == ("nothing is left to do", 40)
    assert (told.known_from, told.workers, told.executions_known) == (TimesSource.HISTORY, 4, 40)
    assert told.finish_s == pytest.approx((clock.now() - begun_at) / SECOND_US, rel=0.1)
    assert [line for line in second.lines if line.startswith("other: 40 jobs in about 3 min")]


async def test_a_probe_executes_a_few_jobs_once_and_tells_of_the_others(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, workers=10, seconds=lambda _: 30.0)
    asked = PlanRequest(run=request_in(tmp_path, jobs=200), probe=5)
    async with service.serving():
        found = await planned(asked, service, clock, console)
        assert (service.paid, found.known_from, found.executions_known) == (5, TimesSource.PROBE, 5)
        assert found.execution_s == pytest.approx(30)
        assert found.rows - found.done == 200
        again = await planned(asked, service, clock, console)
    assert service.paid == 5
    assert again.execution_s == found.execution_s
    assert "in-probe: 5 jobs of 200 are executed to learn of their times" in console.lines


@pytest.mark.slow
async def test_of_a_pool_a_probe_tells_of_each_member_that_is_well_and_the_plan_names_the_others(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    away = Scaling(workers_min=4, workers_max=4, machines=0)
    fleets = {ENDPOINT: fixed(20), "small": fixed(1), "away": away}
    service = SimulatedService(clock, endpoints=tuple(fleets), scaling=fleets, seconds=lambda _: 30.0)
    members = (MemberSettings(ENDPOINT, 0.1), MemberSettings("small", 0.2), MemberSettings("away", 0.3))
    settings = RunSettings(prefer=Prefer.CHEAP, spill_after_us=3_600 * SECOND_US)
    run = replace(request_in(tmp_path, jobs=200), members=members, settings=settings)
    async with service.serving():
        await anyio.sleep(60)
        found = await planned(PlanRequest(run=run, probe=6), service, clock)
    known = {each.endpoint: each.executions_known for each in found.members}
    assert (known, service.paid) == ({ENDPOINT: 3, "small": 3, "away": 0}, 6)
    assert [line for line in found.doubtful if line.startswith("away is not well")]


async def test_a_probe_that_is_interrupted_goes_on_the_next_time(tmp_path: Path) -> None:
    clock, stop = VirtualClock(), anyio.Event()
    service = SimulatedService(clock, seconds=lambda _: 30.0)
    asked = PlanRequest(run=request_in(tmp_path, jobs=10), probe=3)
    async with service.serving(), anyio.create_task_group() as group:

        async def interrupt() -> None:
            await anyio.sleep(10)
            stop.set()

        group.start_soon(interrupt)
        with pytest.raises(StoppedError, match="the same command goes on"):
            await planned(asked, service, clock, stop=stop)
        await planned(asked, service, clock)
    assert service.paid == 3


async def test_what_run_would_refuse_a_plan_refuses_or_tells(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    asked = request_in(tmp_path, jobs=3)
    source = tmp_path / "in.jsonl"
    source.write_text('{"n":1}\n{"n":1}\n{"n":2}\n{"text":"' + "x" * 500 + '"}\n')
    found = await planned(PlanRequest(run=replace(asked, body_bytes_max=400)), service, clock)
    assert (found.rows, found.repeats, found.oversize, found.is_feasible) == (4, 1, 1, False)
    source.write_text('{"n":1}\nno JSON\n')
    with pytest.raises(InputError, match="line 2"):
        await planned(PlanRequest(run=asked), service, clock)
    source.write_text("")
    with pytest.raises(InputError, match="empty"):
        await planned(PlanRequest(run=asked), service, clock)
    with pytest.raises(UsageError, match="standard input can be read once"):
        await planned(PlanRequest(run=replace(asked, source="-"), probe=3), service, clock)
    with pytest.raises(UsageError, match="an input and an endpoint"):
        await planned(PlanRequest(run=replace(asked, endpoint=None)), service, clock)


async def test_a_ttl_that_no_execution_keeps_is_refused_with_the_numbers(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock)
    asked = request_in(tmp_path, jobs=3)
    assert asked.settings is not None
    policy = replace(asked.settings.policy, ttl_ms=20_000)
    run = replace(asked, settings=RunSettings(policy=policy, workers=1))
    figures = PlanFigures(execution_us=60 * SECOND_US)
    found = await planned(PlanRequest(run=run, figures=figures), service, clock)
    assert not found.is_feasible
    assert found.refused == (
        "the TTL (20 s) deletes nearly every job before its end: even the fastest executions take 48 s",
    )


@pytest.mark.parametrize(
    ("number", "rows", "places"), [(2, 10, [3, 8]), (3, 3, [1, 2, 3]), (5, 2, [1, 2]), (1, 9, [5])]
)
def test_a_probe_is_spread_over_the_input(number: int, rows: int, places: list[int]) -> None:
    assert list(spread(number, rows)) == places


async def test_a_program_plans_what_it_has_as_values_or_in_a_file(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=5) as d, d.orchestrator() as orc:
        found = await orc.plan(numbers(100), endpoint=ENDPOINT, execution_time="10s", workers=5, ttl="2h")
        assert (found.rows, found.workers, found.is_feasible) == (100, 5, True)
        assert found.finish_s == pytest.approx(202, rel=0.05)
        (tmp_path / "in.jsonl").write_text('{"n":1}\n')
        assert (await orc.plan(tmp_path / "in.jsonl", endpoint=ENDPOINT, execution_time=60, ttl="30s")).refused
        probed = await orc.plan(numbers(50), endpoint=ENDPOINT, name="some", probe=4)
        assert (probed.known_from, d.service.paid) == (TimesSource.PROBE, 4)
        with pytest.raises(UsageError, match="endpoint= is missing"):
            await orc.plan(numbers(1))
        with pytest.raises(UsageError, match="cannot be written as JSON"):
            await orc.plan([{"n": object()}], endpoint=ENDPOINT)
