import json
from pathlib import Path

import anyio
import pytest

from orchestrator.api.runs.start_and_stop_texts import say_recovered
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.text.durations import Policy
from orchestrator.engine.maintenance.janitor import Recovered
from orchestrator.engine.runtime.poll_intervals import LOOK_S
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnExpired, OnUncertain
from tests.api.runs.test_program import Silence
from tests.engine.process import process
from tests.engine.scripted import (
    COMPLETED,
    CUT,
    FAILED,
    IN_PROGRESS,
    Asked,
    Reply,
    Scripted,
    gaps,
    in_turn,
    numbered,
    says,
)
from tests.simulation.clock import VirtualClock
from tests.simulation.run import Crash, run_until_crash
from tests.simulation.run import run as run_world

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
HOLD = RunSettings(on_uncertain=OnUncertain.HOLD, policy=Policy(ttl_ms=20_000))


@pytest.mark.parametrize(
    ("settings", "webhooks", "pauses_s"),
    [
        (RunSettings(), False, [10, 20, 40]),
        (RunSettings(), True, [120, 120, 120]),
        (RunSettings(policy=Policy(ttl_ms=30_000)), True, [30, 30, 30]),
        (RunSettings(uncertain_after_us=7 * SECOND), True, [7, 7, 7]),
        (RunSettings(uncertain_after_us=7 * SECOND), False, [7, 7, 7]),
        (HOLD, True, [80, 80, 80]),
        (HOLD, False, [80, 80, 80]),
    ],
)
async def test_an_uncertain_submission_is_made_anew_after_its_grace_three_times_at_most(
    tmp_path: Path, settings: RunSettings, webhooks: bool, pauses_s: list[float]
) -> None:
    transport = Scripted(run=CUT)
    async with process(tmp_path / "db", transport, settings=settings, webhooks=webhooks) as p:
        await p.begin()
        await p.finish()
        assert gaps(transport.times("run")) == [pytest.approx(pause, abs=0.2) for pause in pauses_s]
        [failure] = await p.failures()
        assert (failure.trouble, failure.attempts, failure.paid_at_most, failure.remote_id) == ("uncertain", 0, 4, None)
        assert await p.counts() == {"failed": 1, "uncertain_seen": 4, "uncertain_resubmitted": 3}
        assert (await p.story()).count("retried uncertain") == 3


async def test_the_grace_follows_what_was_learned_of_turnarounds(tmp_path: Path) -> None:
    transport = Scripted(run=CUT)
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        p.endpoint.estimates.durations.observe(60_000, 140_000)
        p95_us = p.endpoint.estimates.durations.whole.p95_us
        assert p95_us is not None
        await p.begin()
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await p.until_event(lambda step: step.event is Event.CLAIMED)
        await anyio.sleep(0.1)
        assert gaps(transport.times("run")) == [pytest.approx(2 * p95_us / SECOND, abs=0.2)]


async def test_with_the_policy_fail_an_uncertain_submission_is_never_made_anew(tmp_path: Path) -> None:
    transport = Scripted(run=CUT)
    async with process(tmp_path / "db", transport, settings=RunSettings(on_uncertain=OnUncertain.FAIL)) as p:
        await p.begin()
        await p.finish()
        assert len(transport.of("run")) == 1
        assert [failure.trouble for failure in await p.failures()] == ["uncertain"]
        assert anyio.current_time() == pytest.approx(10, abs=0.3)


def test_what_a_dead_process_left_is_put_in_order(tmp_path: Path) -> None:
    """Job 1 is outstanding, 2 was being sent, 3 is uncertain, and a /retry of 4 was being sent."""
    crash, clock = Crash(), VirtualClock()

    def run(asked: Asked) -> Reply:
        n = json.loads(asked.body)["input"]["n"]
        return {2: Reply(after_s=1e6), 3: CUT}.get(n, numbered()(asked))

    def retry(asked: Asked) -> Reply:
        crash.pull()
        return Reply()

    before = Scripted(run=run, status=lambda a: FAILED if a.remote_id == "r-4" else IN_PROGRESS, retry=retry)
    after = Scripted(run=numbered(), status=COMPLETED)

    async def dies() -> None:
        async with process(tmp_path / "db", before, clock=clock, jobs=4) as p:
            await p.start("dispatcher", "collector")
            await p.finish()

    async def goes_on() -> None:
        async with process(tmp_path / "db", after, clock=clock) as p:
            assert await p.counts() == {
                "outstanding": 1, "submitting": 2, "uncertain": 1, "uncertain_seen": 1, "failed_executions": 1,
                "retried_executions": 1,
            }  # fmt: skip
            recovered = await p.begin()
            assert (recovered.outstanding, recovered.uncertain, recovered.to_repay) == (2, 2, 2)
            await p.finish()
            assert [result.attempts for result in await p.results()] == [1, 1, 1, 2]
            assert [result.paid_at_most for result in await p.results()] == [1, 2, 2, 2]
            assert {asked.remote_id for asked in after.of("status")} == {"r-1", "r-2", "r-3", "r-4"}
            assert after.of("retry") == []
            assert len(after.of("run")) == 2
            assert await p.counts() == {
                "succeeded": 4, "uncertain_seen": 2, "uncertain_resubmitted": 2, "failed_executions": 1,
                "retried_executions": 1,
            }  # fmt: skip
            assert [event.reason for event in await p.events(2)][1] == "the process ended before the answer came"

    crashed_at_s = run_until_crash(dies)
    assert crashed_at_s is not None
    run_world(goes_on, start_s=crashed_at_s)


async def test_an_embedded_service_has_forgotten_its_jobs_which_are_queued_again_at_no_cost(tmp_path: Path) -> None:
    transport = Scripted(run=lambda asked: Reply(after_s=1e6) if b"2" in asked.body else numbered()(asked))
    async with process(tmp_path / "db", transport, jobs=2, is_local=True) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.1)
            assert await p.counts() == {"outstanding": 1, "submitting": 1}
    again = Scripted(run=numbered(), status=COMPLETED)
    async with process(tmp_path / "db", again, is_local=True) as p:
        recovered = await p.begin()
        assert recovered.outstanding == 0
        await p.finish()
        assert p.progress.count("lost") == p.progress.count("expired") == 0
        assert anyio.current_time() < 5  # an uncertain one waits for nobody either
        assert sorted(result.paid_at_most for result in await p.results()) == [1, 2]


@pytest.mark.parametrize(("max_attempts", "repaid"), [(3, 4), (1, 0)])
async def test_an_absence_longer_than_the_ttl_is_said_to_cost_what_it_costs(
    tmp_path: Path, max_attempts: int, repaid: int
) -> None:
    settings = RunSettings(policy=Policy(ttl_ms=60_000), max_attempts=max_attempts)
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=4, settings=settings) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 4)
        await anyio.sleep(120)
    transport = Scripted(run=numbered(), status=lambda _: COMPLETED if transport.of("run") else Reply(404))
    async with process(tmp_path / "db", transport, clock=p.clock) as p:
        recovered = await p.begin()
        assert (recovered.outstanding, recovered.repay_timed_out, recovered.to_repay) == (4, repaid, repaid)
        await p.finish()
        assert len(transport.of("run")) == repaid


@pytest.mark.parametrize(("away_s", "repaid"), [(30, 0), (120, 1)])
async def test_a_submission_that_is_held_will_be_paid_again_only_once_its_ttl_is_over(
    tmp_path: Path, away_s: float, repaid: int
) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), settings=HOLD) as p:
        await p.start("dispatcher")
        await p.until(State.UNCERTAIN)
        await anyio.sleep(away_s)
    async with process(tmp_path / "db", Scripted(status=COMPLETED), clock=p.clock) as p:
        recovered = await p.begin()
        assert (recovered.uncertain, recovered.repay_uncertain) == (1, repaid)


def test_what_may_be_paid_again_is_said_with_a_number_for_each_reason() -> None:
    console = Silence()
    recovered = Recovered(outstanding=56, uncertain=3, repay_uncertain=3, repay_expired=0, repay_timed_out=1_056)
    say_recovered(console, recovered)
    assert console.lines == [
        "56 jobs still at the service: collecting first",
        (
            "up to 1,059 jobs may be paid again: 3 of which nobody knows whether the service took them (--on-uncertain); "
            "1,056 whose TTL at the service is over (--ttl, --max-attempts)"
        ),
    ]


@pytest.mark.parametrize(("on_expired", "repaid"), [(OnExpired.RESUBMIT, 1), (OnExpired.FAIL, 0)])
async def test_what_going_on_will_cost_is_known_before_anything_is_sent(
    tmp_path: Path, on_expired: OnExpired, repaid: int
) -> None:
    settings = RunSettings(retention_us=60 * SECOND, on_expired=on_expired)
    async with process(tmp_path / "db", Scripted(), settings=settings) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await anyio.sleep(120)
    async with process(tmp_path / "db", Scripted(status=in_turn(Reply(404), COMPLETED)), clock=p.clock) as p:
        recovered = await p.begin()
        assert (recovered.outstanding, recovered.uncertain, recovered.to_repay) == (1, 0, repaid)
        await p.finish()
        assert await p.counts() == {"succeeded" if repaid else "failed": 1, "expired": 1}


async def test_jobs_of_an_endpoint_that_this_process_does_not_serve_are_left_as_they_are(tmp_path: Path) -> None:
    def run(asked: Asked) -> Reply:
        n = json.loads(asked.body)["input"]["n"]
        return {1: Reply(after_s=1e6), 2: CUT}.get(n, numbered()(asked))

    path = tmp_path / "db"
    async with process(path, Scripted(run=run), jobs=3) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        before = await p.counts()
        assert before == {"submitting": 1, "uncertain": 1, "outstanding": 1, "uncertain_seen": 1}
        del p.endpoints[p.endpoint.id], p.engine.endpoints.homes.endpoints[p.run.id]
        recovered = await p.janitor.recover(())
        assert (recovered.outstanding, recovered.uncertain, recovered.to_repay) == (0, 0, 0)
        await p.start("janitor")
        await anyio.sleep(15)
        assert await p.counts() == before


async def test_other_runs_at_the_same_endpoint_are_collected_and_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "db"
    async with process(path, Scripted(run=numbered()), jobs=2, name="first") as p:
        p.api.limiter.hold(Operation.RUN, [p.clock.now()] * 999)  # room for one
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await anyio.sleep(0.1)
        assert await p.counts() == {"outstanding": 1, "queued": 1}
    transport = Scripted(run=says("IN_QUEUE", "s-1"), status=COMPLETED)
    async with process(path, transport, jobs=1, name="second") as p:
        await p.begin()
        await p.finish()
        await anyio.sleep(5)
        assert {asked.remote_id for asked in transport.of("status")} == {"r-1", "s-1"}
        assert len(transport.of("run")) == 1
    async with process(path, Scripted(), name="first") as p:
        assert await p.counts() == {"succeeded": 1, "queued": 1}


async def test_a_janitor_with_nothing_to_do_sleeps_until_its_next_duty(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        assert await p.janitor._poll() == pytest.approx(LOOK_S, abs=0.1), "to keep what was learned"
