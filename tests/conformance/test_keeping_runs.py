"""Runs are renamed and deleted: all of theirs goes, nothing of others does, and no number is given twice."""

import itertools

import anyio
import pytest

from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import JOBS_THERE, NO_RUN, Action, Argument, NewName
from orchestrator.ledger.runs.intake_pace import Beside
from tests.factories import S
from tests.ledger.ledgers import PATHS, OpenLedger, a_run, gone, jobs_now
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + S


async def a_run_in_all_states(ledger: Ledger, name: str, *, at: int = AT) -> int:
    """A run with one job in each state."""
    run = await a_run(ledger, len(PATHS), name=name)
    fresh = [job for job in await jobs_now(ledger) if job.run == run.id]
    for job, path in zip(fresh, PATHS.values(), strict=True):
        taken = await gone(ledger, job, *path, at=at + job.id * S) if path else []
        if taken and (submission := taken[-1].after.submission) is not None:
            await ledger.writer.record_notice(Notice(submission=submission, received_at=at, record=None))
    return run.id


def in_the_middle(cut_off: anyio.CancelScope) -> Beside:
    """Somebody works beside, and it is asked a few times whether that is so before all ends."""
    asked = itertools.count(1)

    def is_beside() -> bool:
        if next(asked) == 5:
            cut_off.cancel()
        return True

    return is_beside


async def test_a_deleted_run_leaves_nothing_and_others_are_as_they_were(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        kept = await a_run_in_all_states(ledger, "kept")
        before = await ledger.reports.audit.jobs_after(0, most=99, bytes_max=1_000_000)
        doomed = await a_run_in_all_states(ledger, "doomed")
        latest, end = await ledger.jobs.submissions.latest(), await ledger.reports.feed.end()

        assert not await ledger.runs.take_back(doomed), "jobs of it are at the service"
        assert not await ledger.runs.is_gone(doomed)
        await ledger.commands.change_ledger(await ledger.commands.one(await ledger.commands.ask("cancel", run=doomed)))
        assert await ledger.runs.take_back(doomed)
        assert await ledger.runs.is_gone(doomed)
        assert await ledger.runs.names() == ["kept"]
        await ledger.runs.intakes.clear("doomed")

        assert [run.id for run in await ledger.runs.all()] == [kept]
        assert await ledger.runs.is_gone(doomed)
        assert await ledger.reports.audit.jobs_after(0, most=99, bytes_max=1_000_000) == before
        assert (await ledger.reports.audit.submissions_after(0, most=99)).astray == []
        assert await ledger.runs.counts(doomed) == {}
        assert await ledger.jobs.notices.count() == 5
        assert await ledger.reports.audit.damage() == []
        assert (await ledger.jobs.submissions.latest(), await ledger.reports.feed.end()) == (latest, end)
        again = await a_run_in_all_states(ledger, "doomed", at=AT + 99 * S)
        assert again > doomed
        assert await ledger.jobs.submissions.latest() > latest


async def test_what_a_process_that_was_killed_had_begun_to_delete_is_gone_on_the_next_open(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        doomed = await a_run(ledger, 2_000, name="doomed")
        assert await ledger.runs.take_back(doomed.id), "queued jobs cost nothing"
        with anyio.CancelScope() as cut_off:
            ledger.runs.intakes.pace.is_beside = in_the_middle(cut_off)
            await ledger.runs.intakes.clear("doomed")
        assert [run.name for run in await ledger.runs.all()] == ["doomed"]
        assert await ledger.runs.names() == []
        left = await ledger.reports.audit.jobs_after(0, most=9_999, bytes_max=9_999_999)
        assert 0 < len(left.jobs) < 2_000
    async with open_file() as ledger:
        assert await ledger.runs.all() == []
        assert await ledger.reports.audit.jobs_number() == 0


async def carried_out(ledger: Ledger, action: Action, run: int, argument: Argument | None = None) -> tuple[bool, str]:
    number = await ledger.commands.ask(action, run=run, argument=argument)
    await ledger.commands.change_ledger(await ledger.commands.one(number))
    done = await ledger.commands.one(number)
    return done.is_refused, done.outcome or ""


async def test_a_run_gets_a_name_that_no_other_one_has(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        one, two = await a_run(ledger, name="one"), await a_run(ledger, name="two")
        taken = "there is a run called 'two' already; choose another name"
        assert await carried_out(ledger, Action.RENAME, one.id, NewName("two")) == (True, taken)
        assert await carried_out(ledger, Action.RENAME, one.id, NewName("three")) == (False, "it is called three")
        assert await carried_out(ledger, Action.RENAME, 99, NewName("four")) == (True, NO_RUN)
        assert await ledger.runs.names() == ["three", "two"]
        found = await ledger.runs.named("two")
        assert found is not None
        assert found.id == two.id


async def test_a_run_that_somebody_serves_is_deleted_once_nothing_of_it_is_at_the_service(
    open_file: OpenLedger,
) -> None:
    async with open_file() as ledger:
        doomed, waiting = await a_run_in_all_states(ledger, "doomed"), await a_run(ledger, 2, name="waiting")
        await carried_out(ledger, Action.CANCEL, doomed)
        is_refused, why = await carried_out(ledger, Action.DELETE, doomed)
        assert is_refused, "whoever works is to cancel them there first"
        assert why.startswith(JOBS_THERE)
        assert await carried_out(ledger, Action.DELETE, waiting.id) == (False, "it is deleted")
        assert await ledger.runs.names() == ["doomed"]
        assert await carried_out(ledger, Action.DELETE, 99) == (True, NO_RUN)
