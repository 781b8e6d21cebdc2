"""Brakes on the real engine, against the emulator's world: what each stops, how little is paid, and what goes on."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.foreground.summary import snapshot_of
from orchestrator.api.runs.process_commands import control
from orchestrator.core.gates.brake_gates import Canary, MaxFailures
from orchestrator.core.gates.failure_breaker import OFF, BreakerRules
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.sending.run_pace import RATE_WINDOW_US
from orchestrator.ledger.commands.command_types import Action, NewBrakes
from orchestrator.settings.command_requests import ControlAction, RetryChoice
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import DAY_US, MINUTE_US
from tests.engine.process import Process, process
from tests.engine.scripted import COMPLETED, REFUSED, Asked, Reply, Scripted, numbered
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ON = BreakerRules()
SMALL = BreakerRules(first=4, share=500_000, window=16)
BROKEN = WorkerResult(error="CUDA error: no kernel image is available for execution on the device")
WELL = WorkerResult(output=b"1")


class Handler:
    """What the workers run: broken until it is mended."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.results: Callable[[bytes], WorkerResult] = lambda _: BROKEN

    def __call__(self, raw_input: bytes, _number: int) -> WorkerResult:
        return self.results(raw_input)


def number_of(raw_input: bytes) -> int:
    return int(raw_input.split(b":")[1].rstrip(b"}"))


async def played(
    path: Path,
    story: Callable[[Process, SimulatedService, Handler], Awaitable[None]],
    *,
    clock: VirtualClock | None = None,
    breaker: BreakerRules = ON,
    jobs: int = 300,
    service: SimulatedService | None = None,
    works: bool = False,
    workers: int = 50,
    seconds: float = 1.0,
    **settings: Any,
) -> None:
    """A run, from its beginning on, until `story` is over."""
    clock = clock or VirtualClock()
    handler = Handler(clock)
    if works:
        handler.results = lambda _: WELL
    service = service or SimulatedService(clock, workers=workers, work=handler, seconds=lambda _: seconds)
    async with (
        service.serving(),
        process(
            path, service.transport(), clock=clock, jobs=jobs, settings=RunSettings(**settings), breaker=breaker
        ) as p,
    ):
        await p.begin()
        await story(p, service, handler)


# --- the breaker


async def test_a_broken_handler_costs_25_executions_and_not_900(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert service.paid == 25
        assert p.progress.count(State.FAILED) + p.progress.count(State.QUEUED) == 300
        why = p.session.why_stopped or ""
        assert "the first 20 executions failed, 20 of them with: failed: CUDA error" in why
        assert "orchestrator unpause run" in why
        assert "CUDA error" in str(p.session.report.of(p.run.id).blocked_by)
        await anyio.sleep(90)
        assert service.paid == 25

    await played(tmp_path / "db", story)


async def test_single_jobs_find_out_that_it_was_mended_and_then_all_go(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        await p.wait(lambda: any("The breaker has tripped" in each for each in p.warnings))
        await anyio.sleep(90)
        assert service.paid == 5, "one a minute"
        shown = snapshot_of(p.session, rows_read=None, wall_s=0.0)
        assert shown.why_blocked is not None
        assert shown.eta_s == 60 * p.progress.unfinished
        [left] = (await p.ledger.jobs.brakes.holds()).values()
        assert left.stops, "with nobody at work no single job goes either"
        handler.results = lambda _: WELL
        await p.finish()
        assert p.progress.count(State.SUCCEEDED) == 30
        assert any("half open" in each for each in p.warnings)
        assert any("closed again" in each for each in p.warnings)

    await played(tmp_path / "db", story, breaker=SMALL, jobs=30)


async def test_half_open_it_lets_few_go_and_trips_again_where_these_fail(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        left = [1]  # one alone does well

        def once(_: bytes) -> WorkerResult:
            return WELL if left and left.pop() else BROKEN

        await p.wait(lambda: any("The breaker has tripped" in each for each in p.warnings))
        handler.results = once
        await p.wait(lambda: any("failed again" in each for each in p.warnings))
        assert service.paid <= 4 + 1 + 4, p.warnings

    await played(tmp_path / "db", story, breaker=SMALL, jobs=40)


async def test_where_most_rows_fail_it_pauses_each_time_it_trips(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        handler.results = lambda given: BROKEN if number_of(given) % 3 else WELL
        await anyio.sleep(300)
        assert 1 <= sum("The breaker has tripped" in each for each in p.warnings) <= 3
        assert service.paid <= 45, "without a pause more than 60"

    await played(tmp_path / "db", story, breaker=SMALL, jobs=150, workers=8, queue_depth=8, max_attempts=1)


async def test_what_worked_until_then_stops_when_most_of_the_latest_fail_in_one_way(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        await p.until(State.SUCCEEDED, 20)
        handler.results = lambda _: BROKEN
        await p.wait(lambda: any("The breaker has tripped" in each for each in p.warnings))
        [told] = [each for each in p.warnings if "tripped" in each]
        assert "of the last 16 executions failed" in told
        assert "CUDA error" in told
        paid = service.paid
        assert p.session.why_stopped is None, "it goes on by itself"
        await anyio.sleep(150)
        assert service.paid <= paid + 16 + 2, "what was at the service, and one a minute"
        handler.results = lambda _: WELL
        await p.finish()

    await played(tmp_path / "db", story, works=True, breaker=SMALL, jobs=60, workers=8, queue_depth=8, max_attempts=50)


async def test_failures_of_many_kinds_are_no_reason_for_it(tmp_path: Path) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]

    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        await p.until(State.SUCCEEDED, 20)
        handler.results = lambda given: (
            WorkerResult(error=f"bad {words[number_of(given) % 6]}") if number_of(given) % 3 else WELL
        )
        await p.finish()
        assert p.progress.count(State.FAILED) > 30
        assert not any("tripped" in each for each in p.warnings)

    await played(tmp_path / "db", story, works=True, breaker=SMALL, jobs=80, workers=8, queue_depth=8, max_attempts=1)


async def test_without_it_all_are_paid(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.finish()
        assert service.paid == 36

    await played(tmp_path / "db", story, breaker=OFF, jobs=12)


async def test_a_restart_pays_for_one_more_and_knows_why(tmp_path: Path) -> None:
    clock = VirtualClock()
    handler = Handler(clock)
    service = SimulatedService(clock, workers=50, work=handler)

    async def first(p: Process, _: SimulatedService, __: Handler) -> None:
        await p.wait(lambda: any("tripped" in each for each in p.warnings))

    async def second(p: Process, _: SimulatedService, __: Handler) -> None:
        assert "the first 4 executions failed" in str(p.session.brakes.gate_results(None)[0].hold)
        await anyio.sleep(45)
        assert service.paid == 4, "the minute goes on"
        handler.results = lambda _: WELL
        await p.finish()

    await played(tmp_path / "db", first, clock=clock, service=service, breaker=SMALL, jobs=20)
    await played(tmp_path / "db", second, clock=clock, service=service, breaker=SMALL, jobs=20)


async def test_continue_lets_it_go_at_once(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        handler.results = lambda _: WELL
        await asked(p, Action.CONTINUE)
        assert p.session.why_stopped is None
        await p.finish()

    await played(tmp_path / "db", story, breaker=SMALL, jobs=20)


@pytest.mark.slow
async def test_what_people_retry_is_judged_by_itself_and_ends_soon(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert (service.paid, p.progress.count(State.FAILED)) == (20, 20), "all had one attempt"
        for paid in (40, 60):  # the breaker would let one a minute go
            began = anyio.current_time()
            await asked(p, Action.RETRY, argument=RetryChoice(max_attempts=3))
            await p.wait(lambda: p.session.is_over)
            assert anyio.current_time() - began < 30
            assert (service.paid, p.progress.count(State.QUEUED)) == (paid, 20)
            assert "of 20 jobs that are left none goes to find out more" in (p.session.why_stopped or "")
            number = await p.ledger.commands.ask(Action.CANCEL, run=p.run.id)
            await p.ledger.commands.answer(number)
            await p.wait(lambda: p.progress.unfinished == 0)
            await asked(p, Action.CONTINUE)

    await played(tmp_path / "db", story, jobs=20, max_attempts=1)


@pytest.mark.slow
async def test_what_people_retry_of_a_run_that_works_is_no_reason_to_stop_it(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        handler.results = lambda given: BROKEN if number_of(given) >= 20 else WELL
        await p.wait(lambda: p.progress.unfinished == 0)
        for times in (1, 2, 3):
            began, paid = anyio.current_time(), service.paid
            await asked(p, Action.RETRY, argument=RetryChoice(max_attempts=3))
            await p.wait(lambda: p.session.is_over)
            assert p.progress.unfinished == 0, times
            assert (service.paid - paid, anyio.current_time() - began < 60) == (15, True)

    await played(
        tmp_path / "db", story, breaker=BreakerRules(first=4, share=500_000, window=16), jobs=24, max_attempts=1
    )


async def test_it_stops_no_other_run_at_its_endpoint(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert p.endpoint.why_stopped(p.run.id) is None
        assert p.endpoint.why_stopped(p.run.id + 1) is None

    await played(tmp_path / "db", story, breaker=SMALL, jobs=20)


async def asked(p: Process, action: Action, **given: Any) -> None:
    """Somebody asks something, and it is carried out."""
    number = await p.ledger.commands.ask(action, run=p.run.id, **given)
    p.engine.commands.on_change()
    command = await p.ledger.commands.answer(number)
    assert command.done_at is not None
    assert not command.is_refused, command.outcome


# --- the canary


async def test_a_canary_that_fails_holds_the_rest(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert service.paid == 5
        assert "the canary failed: 0 of 5 succeeded" in (p.session.why_stopped or "")
        await asked(p, Action.CONTINUE)
        await p.wait(lambda: service.paid > 5)

    await played(tmp_path / "db", story, canary=Canary(5), max_attempts=1)


@pytest.mark.parametrize("settings", [{"canary": Canary(5), "breaker": OFF}, {"max_failures": MaxFailures(3)}, {}])
async def test_continue_is_heeded_that_was_said_while_nobody_was_at_work(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    clock = VirtualClock()

    async def held(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)

    async def goes_on(p: Process, service: SimulatedService, _: Handler) -> None:
        with anyio.fail_after(30):
            await p.wait(lambda: service.paid > 10)

    await played(tmp_path / "db", held, clock=clock, max_attempts=1, **settings)
    around = Dependencies(clock=clock, connect=async_creator, environ={})
    await control(tmp_path / "db", "run", ControlAction.CONTINUE, around)
    await played(tmp_path / "db", goes_on, clock=clock, max_attempts=1, **settings)


async def test_a_canary_goes_first_is_spread_and_lets_the_rest_go(tmp_path: Path) -> None:
    order: list[int] = []

    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        def well(given: bytes) -> WorkerResult:
            order.append(number_of(given))
            return WELL if number_of(given) != 7 else BROKEN

        handler.results = well
        await p.finish()
        assert sorted(order[:5]) == [1, 7, 13, 19, 25]
        assert len(set(order)) == 30

    await played(tmp_path / "db", story, canary=Canary(5, 800_000), max_attempts=1, jobs=30)


async def test_a_canary_that_is_tried_again_waits_for_that(tmp_path: Path) -> None:
    tried: list[int] = []

    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        def second(given: bytes) -> WorkerResult:
            tried.append(number_of(given))
            return WELL if tried.count(number_of(given)) > 1 else BROKEN

        handler.results = second
        await p.until(State.SUCCEEDED, 3)
        assert sorted(set(tried)) == [1, 5, 9]
        await p.until(State.SUCCEEDED, 4)

    await played(tmp_path / "db", story, canary=Canary(3), breaker=OFF, jobs=12)


# --- too many failures


async def test_no_more_are_out_before_the_first_success_than_may_fail(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert (service.paid, p.progress.count(State.FAILED)) == (6, 6)
        handler.results = lambda _: WELL
        await asked(p, Action.CONTINUE)
        await p.finish()

    failures = MaxFailures(rows=5)
    await played(tmp_path / "db", story, breaker=OFF, jobs=100, max_failures=failures, max_attempts=1)


async def test_too_many_failures_hold_the_run_until_people_go_on_or_allow_more(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, handler: Handler) -> None:
        handler.results = lambda given: BROKEN if number_of(given) % 4 == 0 else WELL
        await p.wait(lambda: p.session.is_over)
        failed = p.progress.count(State.FAILED)
        assert 6 <= failed <= 10
        assert "more than max-failures allows" in (p.session.why_stopped or "")
        await asked(p, Action.BRAKES, argument=NewBrakes({"max-failures": "15"}))
        await p.wait(lambda: p.progress.count(State.FAILED) > 15 and p.session.is_over)
        await asked(p, Action.CONTINUE)
        await p.finish()
        assert p.progress.count(State.FAILED) == 25

    some: dict[str, Any] = {"workers": 10, "queue_depth": 10, "jobs": 100}
    await played(tmp_path / "db", story, max_failures=MaxFailures(rows=5), max_attempts=1, **some)


# --- budgets


async def test_a_budget_is_kept_and_a_larger_one_lets_it_go_on(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert 39 <= service.paid <= 41
        assert "reach the budget of 0.40" in (p.session.why_stopped or "")
        await asked(p, Action.BRAKES, argument=NewBrakes({"budget": "0.6"}))
        await p.wait(lambda: service.paid > 50 and p.session.is_over)
        assert 59 <= service.paid <= 61

    await played(tmp_path / "db", story, works=True, budget=0.4, price_per_second=0.01, jobs=80)


async def test_a_budget_holds_over_restarts(tmp_path: Path) -> None:
    clock = VirtualClock()
    handler = Handler(clock)
    handler.results = lambda _: WELL
    service = SimulatedService(clock, workers=10, work=handler)
    brake: dict[str, Any] = {"budget": 0.4, "price_per_second": 0.01, "clock": clock, "service": service}

    async def first(p: Process, _: SimulatedService, __: Handler) -> None:
        await p.until(State.SUCCEEDED, 15)

    async def second(p: Process, _: SimulatedService, __: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert 38 <= service.paid <= 42

    await played(tmp_path / "db", first, **brake)
    await played(tmp_path / "db", second, **brake)


async def test_the_days_budget_of_an_endpoint_ends_at_midnight(tmp_path: Path) -> None:
    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.until(State.SUCCEEDED, 39)
        await anyio.sleep(10)
        assert 39 <= service.paid <= 41
        now = p.clock.now()
        assert p.session.why_stopped is None
        assert "a day" in str(p.session.own.sending.blocked_by)
        await p.until(State.SUCCEEDED, 60)
        assert p.clock.now() // DAY_US == now // DAY_US + 1

    with_budget: dict[str, Any] = {"budget_per_day": 0.4, "price_per_second": 0.01, "works": True}
    await played(tmp_path / "db", story, clock=shortly_before_midnight(), **with_budget)


def shortly_before_midnight() -> VirtualClock:
    return VirtualClock(epoch_at=EPOCH_AT + DAY_US - MINUTE_US)


# --- deadlines


@pytest.mark.slow
async def test_what_would_end_too_late_is_not_sent(tmp_path: Path) -> None:
    clock = VirtualClock()
    by = clock.now() + 4 * MINUTE_US

    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.session.is_over)
        assert p.clock.now() <= by + MINUTE_US
        assert 80 <= service.paid <= 104
        assert "finish-by" in (p.session.why_stopped or "")
        assert any("times as many workers" in each for each in p.warnings)

    settings: dict[str, Any] = {"finish_by": by, "stop_late": True, "policy": Policy(execution_timeout_ms=60_000)}
    await played(tmp_path / "db", story, clock=clock, works=True, jobs=200, workers=4, seconds=10.0, **settings)


async def test_a_run_that_only_time_has_stopped_comes_to_its_end(tmp_path: Path) -> None:
    clock = VirtualClock()
    settings = RunSettings(finish_by=clock.now() + MINUTE_US, stop_late=True, breaker=OFF)

    def run(asked: Asked) -> Reply:
        return numbered()(asked) if asked.at_s < 5 else REFUSED

    transport = Scripted(run=run, status=COMPLETED)
    limits = {Operation.RUN: Limit(1, 3.0)}
    async with process(tmp_path / "db", transport, clock=clock, jobs=10, settings=settings, limits=limits) as p:
        await p.begin()
        await anyio.sleep(40)
        assert p.progress.at_service == 0
        await p.wait(lambda: p.session.is_over)
        assert clock.now() < settings.finish_by + MINUTE_US
        assert "finish-by" in (p.session.why_stopped or "")


@pytest.mark.slow
async def test_that_it_will_be_late_is_told_early_and_stops_nothing(tmp_path: Path) -> None:
    clock = VirtualClock()
    by = clock.now() + 3 * MINUTE_US

    async def story(p: Process, service: SimulatedService, _: Handler) -> None:
        await p.wait(lambda: p.progress.count(State.SUCCEEDED) > 25)
        await anyio.sleep(3)
        assert p.clock.now() < by - MINUTE_US
        [told] = [each for each in p.warnings if "times as many workers" in each]
        assert "after finish-by" in told
        assert p.session.why_stopped is None
        await p.finish()
        assert p.clock.now() > by

    await played(tmp_path / "db", story, clock=clock, works=True, jobs=60, workers=4, seconds=15.0, finish_by=by)


@pytest.mark.slow
async def test_no_more_ends_are_remembered_than_tell_how_fast_the_run_goes(tmp_path: Path) -> None:
    async def story(p: Process, _: SimulatedService, __: Handler) -> None:
        await p.finish()
        assert p.progress.count(State.SUCCEEDED) == 30
        assert len(p.session.brakes.pace._ends) <= RATE_WINDOW_US // MINUTE_US

    await played(tmp_path / "db", story, works=True, jobs=30, workers=1, seconds=60.0)
