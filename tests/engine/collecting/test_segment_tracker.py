"""Resumable jobs: each segment goes on from the newest checkpoint that a question has seen."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.segments import NO_PROGRESS
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.jobs.jobs import RunBody, ServiceRecord
from orchestrator.emulator.jobs.world import World
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnStuck
from orchestrator.ticks import TICK_US
from orchestrator.units import SECOND_US
from tests.engine.collecting.test_webhook_inbox import tell
from tests.engine.process import process
from tests.engine.scripted import CANCELLED, COMPLETED, FAILED, GONE, Asked, Reply, Script, Scripted, in_turn, says
from tests.simulation.clock import VirtualClock
from tests.simulation.long_work import LongWork
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

HOUR_S = 3_600.0
WEEK_MS = 7 * 86_400_000
LONG = Policy(execution_timeout_ms=WEEK_MS, ttl_ms=WEEK_MS)

SCALE = 100
"""A long test goes by so many times as fast, or the rest of the program would have to be played for days as well."""


def resumable(**more: Any) -> RunSettings:
    return RunSettings(resumable=True, **{"policy": LONG, **more})


def shows(seq: int, checkpoint: Any = None) -> Reply:
    return says("IN_PROGRESS", output={"seq": seq, "progress": 0.1 * seq, "checkpoint": checkpoint}, delayTime=1_000)


def gives_back(checkpoint: Any = None) -> Reply:
    output = {"unfinished": True, "checkpoint": checkpoint}
    return says("COMPLETED", output=output, delayTime=1_000, executionTime=90_000)


def given(asked: Asked) -> dict[str, Any]:
    """What a `/run` says under `resume`."""
    found: dict[str, Any] = json.loads(asked.body)["input"]["resume"]
    return found


# --- what a segment is given


async def test_a_segment_is_given_the_newest_checkpoint_and_the_same_key(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, {"n": 1}), shows(2, {"n": 2}), FAILED, COMPLETED))
    async with process(tmp_path / "db", transport, settings=resumable()) as p:
        await p.begin()
        await p.finish()
        first, second = map(given, transport.of("run"))
        assert (first["segment"], first["checkpoint"]) == (1, None)
        assert (second["segment"], second["checkpoint"]) == (2, {"n": 2})
        assert first["key"] == second["key"]
        assert len(first["key"]) == 32
        body = json.loads(transport.of("run")[0].body)
        assert (body["input"]["n"], body["policy"]) == (1, {"executionTimeout": WEEK_MS, "ttl": WEEK_MS})
        assert first["soft_s"] == WEEK_MS / 1_000 - 600
        assert first["until"] == p.steps[0].at // SECOND_US + WEEK_MS // 1_000 - 35 * 60
        assert await p.story() == ["claimed", "accepted", "continued failed", "claimed", "accepted", "completed"]
        assert transport.of("retry") == []


async def test_the_last_execution_gets_what_is_left_of_the_time_for_all(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), gives_back(2), COMPLETED))
    settings = resumable(max_execution_us=100 * SECOND_US)
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await p.finish()
        timeouts = [json.loads(asked.body)["policy"]["executionTimeout"] for asked in transport.of("run")]
        assert timeouts == [100_000, 10_000]


# --- what the end of a segment makes of its job

ENDS = {
    "a final output": (COMPLETED, ["completed"], ["completed"]),
    "given back": (gives_back(), ["continued"], ["abandoned failed"]),
    "failed": (FAILED, ["continued failed"], ["abandoned failed"]),
    "timed out": (says("TIMED_OUT"), ["continued timed_out"], ["abandoned timed_out"]),
    "cancelled there": (CANCELLED, ["cancelled cancelled"], ["cancelled cancelled"]),
    "lost": (GONE, ["continued lost"], ["retried lost"]),
}


@pytest.mark.parametrize("has_progressed", [True, False])
@pytest.mark.parametrize(("ends", "newer", "not_newer"), ENDS.values(), ids=ENDS.keys())
async def test_what_the_end_of_a_segment_becomes(
    tmp_path: Path, ends: Reply, newer: list[str], not_newer: list[str], has_progressed: bool
) -> None:
    sees = shows(1, {"n": 1}) if has_progressed else shows(1)
    status: dict[str, Script | Reply] = {"r-1": in_turn(sees, ends), "r-2": COMPLETED}
    transport = Scripted(run=in_turn(says("IN_QUEUE"), says("IN_QUEUE", "r-2")), status=by_id(status))
    async with process(tmp_path / "db", transport, settings=resumable(max_attempts=1)) as p:
        await p.begin()
        await p.finish()
        expected = newer if has_progressed else not_newer
        assert (await p.story())[2:3] == expected


def by_id(scripts: dict[str, Script | Reply]) -> Script:
    def answer(asked: Asked) -> Reply:
        script = scripts[asked.remote_id]
        return script if isinstance(script, Reply) else script(asked)

    return answer


async def test_with_each_newer_checkpoint_attempts_are_counted_anew(tmp_path: Path) -> None:
    answers = [answer for n in range(1, 6) for answer in (shows(1, n), FAILED)]
    transport = Scripted(status=in_turn(*answers, FAILED, FAILED, FAILED))
    room_to_retry = Policy(execution_timeout_ms=600_000, ttl_ms=WEEK_MS)
    async with process(tmp_path / "db", transport, settings=resumable(max_attempts=2, policy=room_to_retry)) as p:
        await p.begin()
        await p.finish()
        assert transport.of("retry") == []
        assert [given(asked)["checkpoint"] for asked in transport.of("run")] == [None, 1, 2, 3, 4, 5, 5]
        assert (await p.counts())["failed"] == 1


async def test_a_job_that_is_given_back_without_progress_has_failed_and_says_so(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), gives_back(1), shows(1, 1), gives_back(1)))
    async with process(tmp_path / "db", transport, settings=resumable()) as p:
        await p.begin()
        await p.finish()
        [failure] = await p.failures()
        assert failure.message == NO_PROGRESS
        assert len(transport.of("run")) == 2


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"max_segments": 2}, "out of segments (2)"),
        ({"max_execution_us": 150 * SECOND_US}, "out of execution time (150 s in all its segments)"),
    ],
)
async def test_a_job_does_not_go_on_for_ever(tmp_path: Path, limit: dict[str, int], message: str) -> None:
    transport = Scripted(status=in_turn(gives_back(1), gives_back(2), gives_back(3)))
    async with process(tmp_path / "db", transport, settings=resumable(**limit)) as p:
        await p.begin()
        await p.finish()
        [failure] = await p.failures()
        assert failure.message == message
        assert await p.ledger.jobs.segments.checkpoint(1) is not None


async def test_a_job_that_has_failed_goes_on_from_its_last_checkpoint_when_it_is_tried_again(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), FAILED, FAILED))
    async with process(tmp_path / "db", transport, settings=resumable(max_attempts=1)) as p:
        await p.begin()
        await p.finish()
    transport.scripts["status"] = COMPLETED
    async with process(tmp_path / "db", transport, settings=resumable(max_attempts=1)) as p:
        await p.begin()
        await p.ledger.commands.apply(1, [transitions.reopened(await p.job(), at=p.clock.now())])
        await p.finish()
        assert given(transport.of("run")[-1])["checkpoint"] == 1


# --- late news


async def test_a_late_result_of_an_earlier_segment_counts_and_of_one_given_back_only_its_checkpoint(
    tmp_path: Path,
) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), FAILED, says("IN_PROGRESS")))
    async with process(tmp_path / "db", transport, settings=resumable(), webhooks=True) as p:
        await p.begin()
        await p.until_event(lambda step: step.after.state is State.OUTSTANDING and step.after.segment == 2)
        first = (await p.ledger.jobs.segments.of_job(1))[0].submission
        await tell(p, first, says("COMPLETED", output={"unfinished": True, "seq": 9, "checkpoint": 9}))
        await anyio.sleep(1)
        assert (await p.job()).state is State.OUTSTANDING
        checkpoint = await p.ledger.jobs.segments.checkpoint(1)
        assert checkpoint is not None
        assert checkpoint[1] == b"9"
        await tell(p, first, says("COMPLETED", output={"done": True}))
        await p.finish()
        [result] = await p.results()
        assert result.output == b'{"done":true}'


async def test_a_webhook_brings_the_checkpoint_of_a_job_that_is_given_back(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), says("IN_PROGRESS")))
    async with process(tmp_path / "db", transport, settings=resumable(), webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        submission = (await p.job()).submission or 0
        await tell(p, submission, gives_back({"n": 7}))
        await p.until_event(lambda step: step.after.state is State.OUTSTANDING and step.after.segment == 2)
        assert given(transport.of("run")[-1])["checkpoint"] == {"n": 7}


async def test_reports_that_come_in_any_order_leave_the_newest_checkpoint(tmp_path: Path) -> None:
    seen = [shows(5, 5), shows(4, 4), shows(7, 7), shows(6, 6), FAILED, COMPLETED]
    transport = Scripted(status=in_turn(*seen))
    async with process(tmp_path / "db", transport, settings=resumable()) as p:
        await p.begin()
        await p.finish()
        assert given(transport.of("run")[-1])["checkpoint"] == 7


async def test_a_checkpoint_that_is_too_large_is_told_of_and_the_one_before_stands(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), shows(2, "x" * 70_000), FAILED, COMPLETED))
    async with process(tmp_path / "db", transport, settings=resumable()) as p:
        await p.begin()
        await p.finish()
        assert given(transport.of("run")[-1])["checkpoint"] == 1
        assert any("a checkpoint of 70,002 bytes: none over 65,536 is taken" in warning for warning in p.warnings)


# --- questions


@pytest.mark.slow
async def test_a_job_of_a_week_is_asked_for_at_its_deadlines_only_where_nobody_wants_to_know(tmp_path: Path) -> None:
    """Seven days of `IN_PROGRESS`, at the pace of the service; a hundred times as fast here."""
    week_s = WEEK_MS / 1_000 / SCALE
    transport = Scripted(status=lambda asked: COMPLETED if asked.at_s > week_s - 10 else shows(1))
    async with process(tmp_path / "db", transport, settings=resumable(progress_every_us=0)) as p:
        p.api.time_scale = SCALE
        await p.start("dispatcher", "collector")
        await p.finish()
        apart_s = 25 * 60 + SCALE * TICK_US / SECOND_US  # asked at the end of a tick, whose time is ours
        assert week_s * SCALE / apart_s <= len(transport.of("status")) <= 450


async def test_together_the_questions_are_a_tenth_of_the_allowance(tmp_path: Path) -> None:
    transport = Scripted(run=lambda asked: says("IN_QUEUE", f"r-{len(transport.of('run'))}"), status=shows(1))
    settings = resumable(progress_every_us=SECOND_US)
    async with process(tmp_path / "db", transport, jobs=50, settings=settings) as p:
        await p.start("dispatcher", "collector")
        await p.until(State.OUTSTANDING, 50)
        await anyio.sleep(10)
        before = len(transport.of("status"))
        await anyio.sleep(20)
        assert 15 <= (len(transport.of("status")) - before) / 20 <= p.endpoint.estimates.status_per_s * 0.1


@pytest.mark.parametrize("on_stuck", [pytest.param(OnStuck.RESUBMIT, marks=pytest.mark.slow), OnStuck.REPORT])
async def test_a_job_that_has_nothing_new_to_report_is_stuck(tmp_path: Path, on_stuck: OnStuck) -> None:
    transport = Scripted(status=shows(1, 1), cancel=CANCELLED)

    def cancelled(_asked: Asked) -> Reply:
        transport.scripts["status"] = in_turn(CANCELLED, COMPLETED)
        return CANCELLED

    transport.scripts["cancel"] = cancelled
    settings = resumable(stall_after_us=600 * SECOND_US, on_stuck=on_stuck)
    async with process(tmp_path / "db", transport, settings=settings) as p:
        await p.begin()
        await anyio.sleep(500)
        assert p.warnings == []
        await anyio.sleep(300)
        [warning] = p.warnings
        assert "1 in progress without anything new to report" in warning
        assert len(transport.of("cancel")) == (on_stuck is OnStuck.RESUBMIT)
        if on_stuck is OnStuck.RESUBMIT:
            await p.finish()
            assert "continued timed_out" in await p.story()
            assert given(transport.of("run")[-1])["checkpoint"] == 1


async def test_after_a_restart_a_stall_counts_from_the_last_report(tmp_path: Path) -> None:
    transport, clock = Scripted(status=shows(1, 1)), VirtualClock()
    settings = resumable(stall_after_us=600 * SECOND_US)
    async with process(tmp_path / "db", transport, clock=clock, settings=settings) as p:
        await p.begin()
        await anyio.sleep(400)
    async with process(tmp_path / "db", transport, clock=clock, settings=settings) as p:
        await p.begin()
        await anyio.sleep(300)
        assert p.stuck.found(p.run.id).in_progress == 1


async def test_a_job_that_is_to_be_cancelled_is_not_continued(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(shows(1, 1), gives_back(2)))
    async with process(tmp_path / "db", transport, settings=resumable()) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        await p.ledger.jobs.cancels.owe([1], CancelWhy.ASKED, now=p.clock.now() + 3_600 * SECOND_US)
        await p.finish()
        assert (await p.story())[-1] == "cancelled cancelled"
        checkpoint = await p.ledger.jobs.segments.checkpoint(1)
        assert checkpoint is not None
        assert checkpoint[1] == b"2"


# --- for days


class Watched(World):
    """Remembers the newest checkpoint that was shown, and with it what each segment was given."""

    shown = 0.0
    begun: list[tuple[float, float]]

    def submit(self, endpoint: str, submission: RunBody, now: int) -> ServiceRecord:
        checkpoint = json.loads(submission.input)["resume"]["checkpoint"]
        self.begun = [*getattr(self, "begun", []), (self.shown, checkpoint["done_s"] if checkpoint else 0.0)]
        return super().submit(endpoint, submission, now)

    def status(self, endpoint: str, job_id: str, now: int, ttl_us: int | None = None) -> ServiceRecord:
        record = super().status(endpoint, job_id, now, ttl_us)
        said = json.loads(bytes(record.output)) if record.output is not None else {}
        if "checkpoint" in said:
            self.shown = max(self.shown, said["checkpoint"]["done_s"])
        return record


@pytest.mark.slow
async def test_a_job_of_nine_days_that_is_killed_every_five_hours_repeats_a_checkpoint_and_a_question_each_time(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    work_s, killed_s, saved_s, asked_s = (hours * HOUR_S / SCALE for hours in (216, 5, 1, 0.5))
    work = LongWork(work_s=work_s, report_every_s=saved_s / 4, checkpoint_every_s=saved_s, killed_after_s=killed_s)
    service = SimulatedService(clock, workers=1, retention_s=1_800 / SCALE, long_work=work, make_world=Watched)
    settings = resumable(progress_every_us=int(asked_s * SCALE * SECOND_US))
    async with service.serving(), process(tmp_path / "db", service.transport(), clock=clock, settings=settings) as p:
        p.api.time_scale = SCALE
        await p.start("dispatcher", "collector")
        await p.progress.until(lambda: p.progress.unfinished == 0)
        [result] = await p.results()
        world = service.world
        assert isinstance(world, Watched)
        assert result.output == b'{"n":1}'
        assert len(world.begun) > 216 / 5
        for shown, checkpoint in world.begun:
            assert checkpoint == shown
        for (_, before), (_, after) in pairwise(world.begun):
            assert before + killed_s - after <= saved_s + asked_s
