"""What the engine writes down every ten seconds: it agrees with the ledger, and goes on over kills."""

import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from orchestrator.core.gates.brake_gates import Brake, MaxFailures
from orchestrator.core.gates.gates import Gate
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import cancelled_on_request, completed
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.samples.rates import grown
from orchestrator.emulator.contract.faults import Faults
from orchestrator.engine.runtime.process_usage import ProcessUsage
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.asker import this_user
from orchestrator.ledger.commands.command_types import Action, NewLimits
from orchestrator.ledger.samples.samples import UNSERVED, EndpointSample, ProcessTotals, RunSample
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US, SECOND_US
from tests.engine.maintenance.test_crashes import Killer
from tests.engine.process import process
from tests.engine.scripted import COMPLETED, CUT, FAILED, IN_PROGRESS, REFUSED, Reply, Scripted, in_turn, numbered
from tests.factories import an_outcome
from tests.ledger.ledgers import obeyed
from tests.simulation.clock import VirtualClock
from tests.simulation.run import run, run_until_crash
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PRICED = RunSettings(price_per_second=0.5)


async def of_run(ledger: Ledger, number: int = 1) -> list[RunSample]:
    now = ledger.now()
    return list((await ledger.samples.of_run(number, now - HOUR_US // 2, now)).samples)


async def at_endpoint(ledger: Ledger, number: int = 1) -> EndpointSample:
    return (await ledger.samples.endpoints.latest([number]))[number]


async def of_process(ledger: Ledger) -> ProcessTotals:
    [found] = (await ledger.samples.latest_of_processes()).values()
    return found


def rows(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def numbers(sample: RunSample | EndpointSample) -> dict[str, float]:
    """Everything of a sample that must not fall."""
    found: dict[str, float] = {f"submissions {name}": n for name, n in sample.submissions.items()}
    found |= {f"ends {name}": n for name, n in sample.ends.items()}
    for name in ("margin", "queue", "execution"):
        values = getattr(sample, name)
        found |= {f"{name} {n}": count for n, count in enumerate(values.counts)} | {f"{name} sum": values.sum_s}
    if isinstance(sample, EndpointSample):
        found |= {f"executions {name}": n for name, n in sample.executions.items()}
        found |= {f"settled {name}": n for name, n in sample.settled.items()}
        found |= {"spent": sample.spent, "paid twice": sample.paid_twice}
    return found


def assert_only_grows(samples: Sequence[RunSample | EndpointSample]) -> None:
    for before, after in pairwise(samples):
        now = numbers(after)
        assert all(now.get(name, 0) >= n for name, n in numbers(before).items()), (before, after)


async def test_a_run_is_written_down_every_ten_seconds_by_the_clock(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=4, seconds=lambda _: 2.0)
    async with (
        service.serving(),
        process(tmp_path / "l.db", service.transport(), clock=clock, jobs=60, sample_every_s=10, settings=PRICED) as p,
    ):
        await p.begin()
        await p.finish()
        await anyio.sleep(11)
        samples = await of_run(p.ledger)
        assert [(each.at // SECOND_US) % 10 for each in samples[1:]] == [0] * (len(samples) - 1)
        assert len(samples) >= 4
        assert_only_grows(samples)
        rates = [rate for _, rate in grown(samples, lambda each: each.finished, 10)]
        assert max(rate or 0 for rate in rates) == pytest.approx(2.0, rel=0.1)  # four workers, two seconds each
        last = samples[-1]
        assert (last.is_last, last.counts, last.hold) == (True, {"succeeded": 60}, "")
        assert (last.sent, last.ends, last.spent) == (60, {"succeeded": 60}, 60.0)
        assert (last.margin.total, last.queue.total, last.execution.total) == (60, 60, 60)
        assert last.execution.counts[last.execution.counts.index(60)] == 60
        await anyio.sleep(60)
        assert len(await of_run(p.ledger)) == len(samples)  # nothing more of a run that is over


async def test_the_first_sample_of_a_run_and_the_last_are_kept_for_long(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, workers=4, seconds=lambda _: 2.0)
    async with (
        service.serving(),
        process(tmp_path / "l.db", service.transport(), clock=clock, jobs=60, sample_every_s=10) as p,
    ):
        await p.begin()
        await p.finish()
        await anyio.sleep(11)
        samples = await of_run(p.ledger)
    kept = [at for (at,) in rows(tmp_path / "l.db", "SELECT at FROM run_samples WHERE step_s = 600 ORDER BY at")]
    assert kept[0] == samples[0].at
    assert kept[-1] == samples[-1].at


async def test_what_ends_with_its_process_has_its_last_sample(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=COMPLETED)
    async with process(tmp_path / "l.db", transport, jobs=3) as p:
        await p.begin()
        await p.finish()
    async with process(tmp_path / "l.db", transport, name="other", jobs=1) as p:
        last = (await p.ledger.samples.runs.latest([1]))[1]
        assert (last.is_last, last.ends) == (True, {"succeeded": 3})


async def test_requests_are_counted_by_what_was_answered(tmp_path: Path) -> None:
    refused = Reply(429, b"{}", after_s=0.2)
    transport = Scripted(run=in_turn(refused, CUT, Reply(500, b"{}"), COMPLETED), status=COMPLETED)
    async with process(tmp_path / "l.db", transport, jobs=1, sample_every_s=10) as p:
        await p.begin()
        await p.finish()
        await anyio.sleep(11)
        sample = await at_endpoint(p.ledger)
        use = sample.operations["run"]
        assert use.codes["429"] == 1
        assert use.codes["none"] >= 1
        assert sum(use.codes.values()) == len(transport.of("run"))
        assert use.latency.total == sum(use.codes.values()) - use.codes["none"]
        assert use.latency.sum_s == pytest.approx(0.2, abs=0.01)
        assert sum(sample.operations["status"].codes.values()) == len(transport.of("status"))
        assert (use.window_s, use.is_chosen, use.concurrent) == (10.0, False, 200)
        assert sample.submissions["deferred"] >= 1


async def test_requests_that_never_reached_the_service_are_counted_as_well(tmp_path: Path) -> None:
    async with process(tmp_path / "l.db", Scripted(run=REFUSED), jobs=1, sample_every_s=10) as p:
        await p.begin()
        await anyio.sleep(35)
        sample = await at_endpoint(p.ledger)
        assert sample.operations["run"].codes["none"] >= 2


async def test_what_the_service_said_of_workers_last_is_kept(tmp_path: Path) -> None:
    health = Reply(body=b'{"jobs":{"inProgress":1},"workers":{"running":3,"idle":1,"throttled":0}}')
    async with process(tmp_path / "l.db", Scripted(health=health), sample_every_s=10) as p:
        await p.begin()
        await p.api.ask_health()
        await anyio.sleep(11)
        sample = await at_endpoint(p.ledger)
        assert sample.workers == {"running": 3, "idle": 1, "throttled": 0}
        assert sample.workers_at is not None
        assert sample.workers_at <= sample.at


async def test_why_nothing_is_sent_has_a_code_and_who_asked_for_it(tmp_path: Path) -> None:
    async with process(tmp_path / "l.db", Scripted(run=numbered()), jobs=40, sample_every_s=10) as p:
        await obeyed(p.ledger, Action.PAUSE, run=1)
        await p.begin()
        await p.control.follow()
        await anyio.sleep(11)
        paused = (await of_run(p.ledger))[-1]
        assert (paused.hold, paused.hold_since) == (Gate.PAUSED, (await of_run(p.ledger))[0].at)
        assert await p.ledger.samples.holds_since([1, 2]) == {1: paused.hold_since}
        assert paused.hold_by.startswith(this_user().split()[0])
        await obeyed(p.ledger, Action.CONTINUE, run=1)
        await p.control.follow()
        await anyio.sleep(11)
        going = (await of_run(p.ledger))[-1]
        assert (going.hold, going.hold_by, going.hold_since) == ("", "", None)
        await p.session.release()
        await anyio.sleep(11)
        assert (await of_run(p.ledger))[-1].hold == UNSERVED


CODES = {*Gate, *Brake, UNSERVED, ""}


@pytest.mark.slow
async def test_a_brake_that_holds_is_a_code_as_well(tmp_path: Path) -> None:
    settings = RunSettings(max_failures=MaxFailures(rows=0))
    transport = Scripted(run=numbered(), status=FAILED)
    async with process(tmp_path / "l.db", transport, jobs=30, settings=settings, sample_every_s=10) as p:
        await p.begin()
        await anyio.sleep(300)
        held = (await of_run(p.ledger))[-1]
        assert (held.hold, held.hold_by, held.is_last) == (Brake.FAILURES, "", False)
        assert {each.hold for each in await of_run(p.ledger)} <= CODES


async def test_a_limit_that_a_person_sets_is_in_the_samples(tmp_path: Path) -> None:
    async with process(tmp_path / "l.db", Scripted(run=numbered()), jobs=2, sample_every_s=10) as p:
        await p.begin()
        await anyio.sleep(11)
        limit = NewLimits({Operation.RUN: Limit(500, 10)})
        await obeyed(p.ledger, Action.LIMITS_SET, endpoint=1, argument=limit)
        await p.engine.endpoints.limits.read()
        await anyio.sleep(11)
        use = (await at_endpoint(p.ledger)).operations["run"]
        assert (use.allowance, use.is_chosen) == (500, True)


async def test_what_a_process_used_is_added_to_what_others_used_before_it(tmp_path: Path) -> None:
    async def life(used: ProcessUsage) -> ProcessTotals:
        async with process(
            tmp_path / "l.db", Scripted(run=numbered()), jobs=1, sample_every_s=10, watch_every_s=1
        ) as p:
            p.engine.process.meter.usage = lambda: used
            await p.begin()
            await anyio.sleep(11)
            return await of_process(p.ledger)

    first = await life(ProcessUsage(1.5, 1_000))
    second = await life(ProcessUsage(0.25, 2_000))
    assert (first.begins, first.cpu_s, first.resident_bytes, first.before) == (1, 1.5, 1_000, None)
    assert (second.begins, second.cpu_s, second.resident_bytes) == (2, 1.75, 2_000)
    assert second.before
    assert second.commits.total > first.commits.total > 0
    assert second.lag.total > first.lag.total > 0
    assert second.position >= first.position > 0


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_over_kills_what_is_counted_never_falls_and_comes_to_what_the_ledger_has(tmp_path: Path, seed: int) -> None:
    chance, clock, path = random.Random(seed), VirtualClock(), tmp_path / "l.db"
    killer = Killer(chance)
    service = SimulatedService(
        clock, seed=seed, workers=5, seconds=lambda rng: rng.uniform(0.5, 9.0), faults=Faults(lost_answer=0.1)
    )

    async def life() -> None:
        async with (
            service.serving(),
            process(
                path,
                service.transport(travel_s=lambda: chance.uniform(0, 0.1)),
                clock=clock,
                jobs=25,
                delay=killer.delay,
                sample_every_s=10,
                settings=PRICED,
            ) as p,
        ):
            await p.begin()
            await p.finish()
            killer.arm(0)
            await anyio.sleep(11)

    start_s: float | None = 0.0
    for _ in range(4):
        killer.arm(chance.randint(1, 400))
        start_s = run_until_crash(life, seed=seed, start_s=start_s or 0.0)
        if start_s is None:
            break
    killer.arm(0)
    if start_s is not None:
        run(life, seed=seed, start_s=start_s)

    events = dict(rows(path, "SELECT event, count(*) FROM events GROUP BY event"))
    bodies = rows(path, "SELECT body FROM run_samples ORDER BY at")
    last = decoded(bodies[-1][0])
    assert_only_grows([decoded(body) for (body,) in bodies])
    assert last.is_last
    assert last.ends == {"succeeded": events["completed"]} == {"succeeded": 25}
    assert last.submissions.get("unanswered", 0) == events.get("unanswered", 0)
    assert last.counts == {name: n for name, n in rows(path, "SELECT name, n FROM counts WHERE n") if n}
    [(timed, margins, total_ms)] = rows(
        path, "SELECT count(execution_ms), count(margin_us), sum(execution_ms) FROM outcomes"
    )
    assert (last.execution.total, last.margin.total) == (timed, margins)
    assert last.execution.sum_s == pytest.approx(total_ms / 1_000, abs=0.01)


def decoded(body: bytes) -> RunSample:
    return msgspec.json.decode(body, type=RunSample)


async def test_of_runs_that_are_over_nothing_more_is_said(tmp_path: Path) -> None:
    """Whoever works says how it stands every few seconds: with an entry for each run that it ever met, for ever."""
    transport = Scripted(run=numbered(), status=IN_PROGRESS)
    async with process(tmp_path / "l.db", transport, jobs=2, name="only collected") as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 2)
    transport.scripts["status"] = lambda _: COMPLETED
    async with process(tmp_path / "l.db", transport, jobs=1, name="served", sample_every_s=10) as p:
        await p.begin()
        assert set(p.engine.report(lately=True).runs) == {1, 2}
        await p.finish()
        await anyio.sleep(90)
        assert await p.ledger.runs.ended([1])
        assert set(p.engine.report(lately=True).runs) == set()


async def test_steps_of_the_same_transaction_are_in_its_sample(tmp_path: Path) -> None:
    async with process(tmp_path / "l.db", Scripted(run=numbered()), jobs=3) as p:
        for n in (1, 2, 3):
            job = (await p.ledger.jobs.of(ids=[n]))[n]
            p.ledger.writer.submit(cancelled_on_request(job, at=p.clock.now()), lambda _: None)
        await p.engine.maintenance.sampler.take()
        last = (await p.ledger.samples.runs.latest([1]))[1]
        assert (last.counts, last.ends) == ({"cancelled": 3}, {"cancelled": 3})


async def test_a_result_in_the_transaction_of_a_runs_last_sample_is_counted_once(tmp_path: Path) -> None:
    """A process that goes on with other runs takes further samples."""
    async with process(tmp_path / "l.db", Scripted(run=numbered(), status=IN_PROGRESS), jobs=2) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 2)
        jobs = await p.ledger.jobs.of(ids=[1, 2])
        for job in jobs.values():
            step = completed(job, an_outcome(job), reason="status", at=p.clock.now())
            p.ledger.writer.submit(step, lambda _: None)
        for _ in range(2):
            await p.engine.maintenance.sampler.take()
            last = (await p.ledger.samples.runs.latest([1]))[1]
            assert (last.counts["succeeded"], last.ends) == (2, {"succeeded": 2})
