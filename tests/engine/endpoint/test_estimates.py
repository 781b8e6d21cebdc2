"""A service that keeps results for a sixth of the agreed time, and one that only loses jobs."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.polling.result_retention import RetentionEstimate
from orchestrator.ledger.jobs.history import EventRow
from tests.engine.collecting.test_missing_job_check import n_of
from tests.engine.collecting.test_webhook_inbox import tell
from tests.engine.process import Process, process
from tests.engine.scripted import GONE, IN_PROGRESS, Asked, Reply, Scripted, numbered, says
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
AGREED_S = 1_800.0
KEPT_S = AGREED_S / 6
SHORT_S, LONG_S = 30.0, 1_200.0
JOBS = 60
EACH = 10
"""Of those that are lost by chance."""

LIMITS = {Operation.RUN: Limit(4, 60), Operation.STATUS: Limit(20, 10)}
"""Four jobs a minute at the most, and so few questions that none is to spare."""


class Forgetful(Scripted):
    """Every third job takes 20 min, the others half a minute; results are kept for `kept_s`.

    Of the submissions, `is_lost` says which are accepted and never known again.
    """

    def __init__(self, *, kept_s: float = KEPT_S, is_lost: Callable[[int], bool] = lambda _: False) -> None:
        super().__init__(run=self._run, status=self._status)
        self.sent_s: dict[str, float] = {}
        self._kept_s = kept_s
        self._is_lost = is_lost
        self._lost: set[str] = set()

    def _run(self, asked: Asked) -> Reply:
        name = f"r-{n_of(asked)}"
        self._lost.discard(name)
        if self._is_lost(len(self.of("run"))):
            self._lost.add(name)
        self.sent_s[name] = asked.at_s
        return numbered()(asked)

    def _status(self, asked: Asked) -> Reply:
        return self.record(asked.remote_id, asked.at_s)

    def record(self, name: str, at_s: float) -> Reply:
        """What is known of a job."""
        took_s = LONG_S if int(name[2:]) % 3 == 0 else SHORT_S
        over_s = at_s - self.sent_s[name] - took_s
        if over_s >= self._kept_s or name in self._lost:
            return GONE
        if over_s < 0:
            return IN_PROGRESS
        return says("COMPLETED", name, output=1, delayTime=0, executionTime=int(took_s * 1_000))


def submission_of(asked: Asked) -> int:
    """The number that its webhook has."""
    return int(json.loads(asked.body)["webhook"].rpartition("/")[2].partition(".")[0])


def know(p: Process) -> None:
    """The times of the jobs are known from earlier: most take long enough for the short ones to be asked for late."""
    rng = random.Random(1)
    for _ in range(500):
        p.endpoint.estimates.durations.observe(0, int(1_000 * rng.choice((SHORT_S, SHORT_S, LONG_S))))


def told(p: Process) -> list[str]:
    return [warning for warning in p.warnings if "results are gone" in warning]


async def losses(p: Process) -> list[EventRow]:
    """What the history says of jobs that were lost, by the job."""
    return [event for n in range(1, JOBS + 1) for event in await p.events(n) if event.trouble == "lost"]


@pytest.mark.slow
async def test_after_a_few_results_that_were_gone_too_early_no_other_is_left_there_for_so_long(tmp_path: Path) -> None:
    transport = Forgetful()
    async with process(tmp_path / "db", transport, jobs=JOBS, limits=LIMITS) as p:
        know(p)
        await p.begin()
        await p.wait(lambda: bool(told(p)))
        known_at = p.clock.now()
        await p.wait(lambda: p.progress.count("lost") == RetentionEstimate.ENOUGH)
        await p.finish()
        counts = await p.counts()
        assert counts == {"succeeded": JOBS, "lost": counts["lost"]}, "what the service forgot is not our lateness"
        lost = await losses(p)
        sent_at = [event.submission or 0 for event in lost]
        assert all(at < known_at - KEPT_S * SECOND for at in sent_at), "no other was lost"
        assert lost[0].reason == "the service forgot the job 8 min or more before its time"
        warning = (
            "results are gone from the service 21 min after their jobs have finished, though it should keep them for "
            "30 min: they are asked for sooner from now on, as if they were kept for 2 min. Jobs whose results are gone "
            "count as lost, and are sent again"
        )
        assert p.warnings == [warning]


@pytest.mark.slow
async def test_jobs_that_are_lost_by_chance_change_nothing(tmp_path: Path) -> None:
    transport = Forgetful(kept_s=AGREED_S, is_lost=lambda n: n % EACH == 2)
    async with process(tmp_path / "db", transport, jobs=JOBS, limits=LIMITS) as p:
        know(p)
        await p.begin()
        await p.finish()
        counts = await p.counts()
        assert counts["succeeded"] == JOBS
        assert counts["lost"] >= JOBS // EACH
        assert told(p) == []
        assert p.endpoint.estimates.retention_us(p.run.id) == AGREED_S * SECOND


@pytest.mark.slow
async def test_a_process_that_finds_results_gone_after_a_pause_calls_less_time_safe_and_sends_less_ahead(
    tmp_path: Path,
) -> None:
    transport = Forgetful()
    limits = {Operation.STATUS: Limit(20, 10)}
    clock = VirtualClock()
    async with process(tmp_path / "db", transport, clock=clock, jobs=12, limits=limits) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 12)
    await anyio.sleep(KEPT_S + 2 * SHORT_S)
    async with process(tmp_path / "db", transport, clock=clock, limits=limits) as p:
        know(p)
        before = p.dispatcher.turns.admissible(p.session.own.sending, Operation.RUN, are_in_turns=False)
        await p.begin()
        await p.wait(lambda: bool(told(p)))
        await anyio.sleep(5)
        soonest = p.endpoint.outstanding.plan.deadlines.soonest()
        assert soonest is not None
        assert soonest <= p.clock.now() + AGREED_S * SECOND / 12
        assert p.dispatcher.turns.admissible(p.session.own.sending, Operation.RUN, are_in_turns=False) < before / 5
        await p.finish()
        assert await p.counts() == {"succeeded": 12, "lost": 8}


@pytest.mark.slow
async def test_where_so_many_are_gone_that_the_endpoint_is_suspect_it_is_believed_less_once_they_have_expired(
    tmp_path: Path,
) -> None:
    transport = Forgetful()
    clock = VirtualClock()
    async with process(tmp_path / "db", transport, clock=clock, jobs=60) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 60)
    await anyio.sleep(KEPT_S + 2 * SHORT_S)
    async with process(tmp_path / "db", transport, clock=clock) as p:
        know(p)
        await p.begin()
        await anyio.sleep(60)
        assert p.endpoint.health.is_suspect(p.clock.now())
        assert told(p) == []
        await p.finish()
        assert await p.counts() == {"succeeded": 60, "expired": 40}
        assert len(told(p)) == 1


@pytest.mark.slow
async def test_where_webhooks_arrive_a_job_that_was_never_seen_was_never_executed_more_likely(tmp_path: Path) -> None:
    transport = Forgetful(kept_s=AGREED_S, is_lost=lambda n: n % EACH == 2 and n <= JOBS)
    async with process(tmp_path / "db", transport, jobs=JOBS, webhooks=True) as p:
        know(p)

        async def notify() -> None:
            told_of: set[int] = set()
            while True:
                await anyio.sleep(5)
                latest = {f"r-{n_of(asked)}": submission_of(asked) for asked in transport.of("run")}
                for name, submission in latest.items():
                    record = transport.record(name, anyio.current_time())
                    if record not in (GONE, IN_PROGRESS) and submission not in told_of:
                        told_of.add(submission)
                        await tell(p, submission, record)

        await p.begin()
        p.taking.start_soon(notify)
        await p.finish()
        assert await p.counts() == {"succeeded": JOBS, "lost": JOBS // EACH}
        assert told(p) == []
