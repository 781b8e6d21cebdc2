"""What a person says is gone at the service is sent anew, once."""

import itertools
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.commands.resend import resend_outstanding
from orchestrator.ledger.commands.command_types import Action
from tests.engine.commands.test_command_inbox import asked
from tests.engine.hosting.test_run_host import taken_in
from tests.engine.process import process
from tests.engine.scripted import Asked, Reply, Scripted, numbered, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

JOBS = 5


async def test_outstanding_jobs_are_sent_anew_and_those_of_another_run_are_not(tmp_path: Path) -> None:
    ids = itertools.count()

    def status(asked: Asked) -> Reply:  # the first submissions never come to an end
        is_anew = int(asked.remote_id.removeprefix("s-")) >= JOBS + 2
        return says("COMPLETED" if is_anew else "IN_PROGRESS", asked.remote_id, output=1)

    transport = Scripted(run=lambda _: says("IN_QUEUE", f"s-{next(ids)}"), status=status)
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        other = await taken_in(p.ledger, "other", 2, first=JOBS)
        await asked(p, Action.SERVE, run=other)
        await p.until(State.OUTSTANDING, JOBS)
        await anyio.sleep(5)
        number = await p.ledger.commands.ask(Action.RESEND, run=p.run.id)
        assert (await p.ledger.commands.answer(number)).outcome is None
        await p.engine.commands.run_once()
        assert (await p.ledger.commands.one(number)).outcome == f"{JOBS} jobs are queued again"
        await p.finish()
        assert len(transport.of("run")) == 2 * JOBS + 2
        assert await p.story() == ["claimed", "accepted", "retried lost", "claimed", "accepted", "completed"]
        assert (await p.ledger.runs.counts(other))["outstanding"] == 2
        assert (await asked(p, Action.RESEND)).outcome == "no job of it was outstanding"


async def test_nothing_is_sent_anew_of_a_run_that_is_to_be_cancelled_or_is_not_there(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, JOBS)
        await asked(p, Action.CANCEL)
        for run in (p.run.id, 99):
            assert (await asked(p, Action.RESEND, run=run)).is_refused
        assert len(transport.of("run")) == JOBS


async def test_what_was_sent_anew_is_left_alone_by_who_carries_it_out_again(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, JOBS)
        await anyio.sleep(5)
        before = p.clock.now()
        assert await resend_outstanding(p.ledger, p.run.id, before=before) == JOBS
        await p.wait(lambda: len(transport.of("run")) == 2 * JOBS and p.progress.count("outstanding") == JOBS)
        assert await resend_outstanding(p.ledger, p.run.id, before=before) == 0
