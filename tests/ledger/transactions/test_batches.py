"""What shares a transaction, and what waits for which company: the writer's batches."""

import sqlite3
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.database import Company, LedgerDatabase
from orchestrator.ledger.transactions import group_commit
from orchestrator.ledger.transactions.batch_write import batch_write
from orchestrator.ledger.transactions.transaction import QueuedWrite, Transaction
from tests.factories import an_outcome
from tests.ledger.ledgers import a_run, jobs_now, opened
from tests.ledger.transactions.test_group_commit import AT, a_defect, a_word, claimed
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_who_asks_for_one_block_after_the_other_has_no_company_to_wait_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        run = await a_run(ledger)
        await anyio.sleep(1)
        begun_s = running_loop().time()
        for _ in range(3):
            await ledger.runs.configure(run.id, run.settings, before=run.settings)
        assert running_loop().time() == begun_s


async def test_a_lone_write_goes_at_once_and_the_next_waits_for_company(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2)
        await anyio.sleep(1)
        begun_s = running_loop().time()
        first, second = await jobs_now(ledger)
        await ledger.writer.step(claimed(first))
        assert running_loop().time() == begun_s
        await ledger.writer.step(claimed(second))
        assert running_loop().time() == pytest.approx(begun_s + group_commit.GATHER_S)


async def test_what_comes_during_a_commit_waits_for_company(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 5)
        await anyio.sleep(1)
        begun_s = running_loop().time()
        left = await jobs_now(ledger)
        written: list[tuple[int, float]] = []

        def post_another(applied: Sequence[Transition]) -> None:
            written.append((len(applied), running_loop().time() - begun_s))
            if left:  # that of the commit is not over: the writer has something to write whenever it is done
                ledger.writer.submit(claimed(left.pop()), lambda _: None)

        ledger.writer.subscribe(post_another)
        post_another([])
        await anyio.sleep(1)
    assert [steps for steps, _ in written] == [0, 1, 1, 1, 1, 1]
    assert [at_s for _, at_s in written[1:]] == pytest.approx([n * group_commit.GATHER_S for n in range(5)])


async def test_outputs_that_take_much_memory_wait_for_no_company(tmp_path: Path) -> None:
    large = b'"' + b"x" * group_commit.URGENT_BYTES + b'"'
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 5)
        await anyio.sleep(1)
        begun_s = running_loop().time()
        left = await jobs_now(ledger)
        written: list[float] = []

        def post_another(_applied: Sequence[Transition]) -> None:
            written.append(running_loop().time() - begun_s)
            if left:
                job = left.pop()
                done = transitions.completed(job, an_outcome(job, output=large), reason="status", at=AT)
                ledger.writer.submit(done, lambda _: None)

        ledger.writer.subscribe(post_another)
        post_another([])
        await anyio.sleep(1)
    assert written == [0.0] * 6


async def test_brief_blocks_share_a_transaction_with_all_that_waits(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 4)
        await anyio.sleep(1)
        one, two, three, four = await jobs_now(ledger)
        together: list[list[int]] = []
        ledger.writer.subscribe(lambda applied: together.append([step.after.id for step in applied]))

        async def brief(job: Job) -> None:
            async def block(transaction: Transaction) -> int:
                return len(await transaction.apply([claimed(job)]))

            assert await ledger.writer.run_briefly(block) == 1

        async def step(job: Job) -> None:
            assert await ledger.writer.step(claimed(job))

        async with anyio.create_task_group() as group:
            for work, job in ((brief, one), (step, two), (brief, three), (step, four)):
                group.start_soon(work, job)
    assert together == [[two.id, four.id, one.id, three.id]]


async def test_a_brief_block_that_fails_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        await anyio.sleep(1)
        told: list[str] = []

        async def good() -> None:
            told.append(await ledger.writer.run_briefly(a_word))

        async def bad() -> None:
            with pytest.raises(LookupError, match="a defect of ours"):
                await ledger.writer.run_briefly(a_defect)

        async with anyio.create_task_group() as group:
            for work in (good, bad, good):
                group.start_soon(work)
        assert told == ["word", "word"]
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT line FROM jobs").fetchall() == [(1,)]


async def test_a_brief_block_meets_a_job_as_a_step_behind_it_has_left_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2)
        await anyio.sleep(1)
        cancelled, failed = await jobs_now(ledger)
        told: list[str] = []
        ledger.writer.subscribe(lambda applied: told.extend(f"{step.event} {step.after.id}" for step in applied))

        async def claim(transaction: Transaction) -> list[int]:
            return [step.after.id for step in await transaction.apply([claimed(cancelled), claimed(failed)])]

        async def claim_both() -> None:
            assert await ledger.writer.run_briefly(claim) == [failed.id]

        async with anyio.create_task_group() as group:
            group.start_soon(claim_both)
            await anyio.lowlevel.checkpoint()
            step = transitions.cancelled_on_request(cancelled, at=AT)
            ledger.writer.submit(step, lambda _: told.append("written"))
        assert told == [f"cancelled {cancelled.id}", f"claimed {failed.id}", "written"]


async def test_what_is_handed_over_during_the_commit_of_a_block_alone_is_written_after_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 3)
        await anyio.sleep(1)
        first, second, third = await jobs_now(ledger)
        told: list[list[int]] = []
        ledger.writer.subscribe(lambda applied: told.append([step.after.id for step in applied]))

        async def claim(transaction: Transaction) -> None:
            for job in (second, third):
                ledger.writer.submit(claimed(job), lambda _: None)
            await transaction.apply([claimed(first)])

        await ledger.writer.run_briefly(claim)
        assert told == [[first.id]]
        await anyio.sleep(1)
        assert told == [[first.id], [second.id, third.id]]


async def test_so_many_brief_blocks_and_no_more_share_a_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2 * group_commit.BATCH_BRIEF_MAX + 1)
        await anyio.sleep(1)
        told: list[int] = []
        ledger.writer.subscribe(lambda applied: told.append(len(applied)))

        async def claim(job: Job) -> None:
            async def block(transaction: Transaction) -> None:
                await transaction.apply([claimed(job)])

            await ledger.writer.run_briefly(block)

        async with anyio.create_task_group() as group:
            for job in await jobs_now(ledger):
                group.start_soon(claim, job)
        assert told == [group_commit.BATCH_BRIEF_MAX, group_commit.BATCH_BRIEF_MAX, 1]


class Noting:
    """A database that says in which company each transaction of it was begun."""

    def __init__(self, database: LedgerDatabase) -> None:
        self._database = database
        self.began: list[Company] = []

    def writing(
        self, company: Company = Company.ALONE, *, is_proved: bool = True
    ) -> AbstractAsyncContextManager[AsyncConnection]:
        self.began.append(company)
        return self._database.writing(company, is_proved=is_proved)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


async def test_a_batch_goes_alone_where_any_of_it_has_to(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        [job] = await jobs_now(ledger)
        database = Noting(ledger._site.database)
        step = QueuedWrite[object](steps=[claimed(job)])
        beside = QueuedWrite[object](block=nothing, company=Company.SHARED)
        lonely = QueuedWrite[object](block=nothing, company=Company.ALONE)
        for batch in ([step, beside], [beside, lonely], [lonely], [beside]):
            await batch_write(database, batch, ledger.patience)
        assert database.began == [Company.SHARED, Company.ALONE, Company.ALONE, Company.SHARED]


async def nothing(_: Transaction) -> None:
    """Is only to be in a transaction."""
