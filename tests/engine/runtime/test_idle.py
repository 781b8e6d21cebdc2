"""A program that has nothing to do but wait hardly looks into its ledger, and is as quick as any when it has to be."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.engine.runtime.poll_loop import POLL_S_MAX
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import Process, process
from tests.engine.scripted import CUT, Scripted, in_turn, numbered, says
from tests.factories import TTL_US, S

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LONG_S = 1_800


async def claimed(p: Process) -> list[Job]:
    """All jobs of the run, as if somebody were about to send them."""
    return [
        each.job
        for each in (
            await p.ledger.jobs.claims.take(
                ClaimLine(p.run.id, endpoint=p.run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US), most=9
            )
        ).claims
    ]


def put_off(p: Process, job: Job, seconds: int) -> Transition:
    now = p.clock.now()
    return transitions.deferred(job, due_at=now + seconds * S, reason="not now", at=now)


async def test_an_idle_program_asks_its_database_for_little(tmp_path: Path) -> None:
    calls = 0

    def delay() -> float:
        nonlocal calls
        calls += 1
        return 0.0

    async with process(tmp_path / "db", Scripted(), delay=delay) as p:
        await p.start("dispatcher", "inbox", "janitor", "canceller", "control")
        await p.until(State.OUTSTANDING)
        await anyio.sleep(60)
        calls = 0
        await anyio.sleep(600)
        assert 10 < calls < 350, "what looks every five seconds makes 120 calls by itself"


async def test_after_a_long_pause_a_job_leaves_as_soon_as_it_is_queued(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport) as p:
        [job] = await claimed(p)
        await p.start("dispatcher")
        await anyio.sleep(LONG_S)
        await p.ledger.writer.step(put_off(p, job, 0))
        await anyio.sleep(0.1)
        assert len(transport.of("run")) == 1


async def test_a_job_that_was_put_off_leaves_at_its_time_whatever_the_clock_does(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=2) as p:
        first, second = await claimed(p)
        await p.ledger.writer.apply([put_off(p, first, 100), put_off(p, second, LONG_S)])
        await p.start("dispatcher")
        await anyio.sleep(99.9)
        assert not transport.of("run")
        await anyio.sleep(0.2)
        assert len(transport.of("run")) == 1
        p.clock.jump(LONG_S * S)
        await anyio.sleep(POLL_S_MAX)
        assert len(transport.of("run")) == 2


async def test_a_job_whose_retry_does_not_get_its_turn_soon_is_sent_anew(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=2, limits={Operation.RETRY: Limit(1, 3_600)}) as p:
        now = p.clock.now()
        for number, job in enumerate(await claimed(p)):
            sent = transitions.accepted(job, remote_id=f"r-{number}", sent_at=now, at=now)
            failed = transitions.retried(
                sent.after, FailureClass.FAILED, due_at=now, retry_until=now + 60 * S, reason="FAILED", at=now
            )
            await p.ledger.writer.step(sent)
            await p.ledger.writer.step(failed)
        await p.start("dispatcher")
        await anyio.sleep(10)
        assert (len(transport.of("retry")), len(transport.of("run"))) == (1, 1)
        await anyio.sleep(60 + POLL_S_MAX)
        assert (len(transport.of("retry")), len(transport.of("run"))) == (1, 1)


@pytest.mark.slow
async def test_after_a_long_pause_a_submission_too_many_is_cancelled_as_soon_as_it_is_known(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-2")))
    settings = RunSettings(uncertain_after_us=5 * S)
    async with process(tmp_path / "db", transport, webhooks=True, settings=settings) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        first = await submission_of(p)
        await p.until(State.OUTSTANDING)
        await anyio.sleep(LONG_S)
        await tell(p, first, says("COMPLETED", "r-1", output="first", delayTime=1, executionTime=2))
        await p.finish()
        await anyio.sleep(0.1)
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-2"]
