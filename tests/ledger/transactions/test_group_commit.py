"""Group commit: many callers, few transactions, and nobody in doubt about what was written."""

import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import cast

import aiosqlite
import anyio
import msgspec
import pytest
from sqlalchemy import text

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions import group_commit
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.transaction import Transaction
from tests.factories import STEPS, S, an_outcome
from tests.ledger.ledgers import a_run, brought_to, dump, job_now, jobs_now, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import BUSY_TIMEOUT_S, async_creator
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S


def claimed(job: Job) -> Transition:
    return STEPS["claimed"][1](job, AT + job.id)


async def a_word(transaction: Transaction) -> str:
    return str((await transaction.connection.execute(text("SELECT 'word'"))).scalar_one())


async def a_defect(transaction: Transaction) -> None:
    await transaction.connection.execute(text("UPDATE jobs SET line = 99"))
    raise LookupError("a defect of ours")


@asynccontextmanager
async def at_work(path: Path) -> AsyncIterator[tuple[GroupCommitWriter, Database]]:
    """A writer over the ledger at `path`, which exists."""
    database = Database(path, connect=async_creator(path))
    own = GroupCommitWriter(database, VirtualClock())
    async with anyio.create_task_group() as group:
        await group.start(own.serve)
        yield own, database
        group.cancel_scope.cancel()
    await database.aclose()


async def test_callers_that_come_together_share_a_transaction(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 50)
        feed: list[int] = []
        ledger.writer.subscribe(lambda applied: feed.append(len(applied)))
        async with anyio.create_task_group() as group:
            for job in await jobs_now(ledger):
                group.start_soon(ledger.writer.step, claimed(job))

        assert feed == [50]


async def test_two_steps_of_one_job_are_written_in_order_in_two_transactions(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        feed: list[list[str]] = []
        ledger.writer.subscribe(lambda applied: feed.append([step.event.value for step in applied]))
        first = claimed(await job_now(ledger))
        second = STEPS["accepted"][1](first.after, AT + 2 * S)
        async with anyio.create_task_group() as group:
            group.start_soon(ledger.writer.step, first)
            group.start_soon(ledger.writer.step, second)

        assert feed == [["claimed"], ["accepted"]]
        assert await job_now(ledger) == second.after


async def test_a_batch_is_bounded_in_steps_and_in_entries(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    many = group_commit.BATCH_STEPS_MAX + 10
    async with opened(path) as ledger:
        await a_run(ledger, many)
        feed: list[int] = []
        ledger.writer.subscribe(lambda applied: feed.append(len(applied)))
        found = await jobs_now(ledger)
        for job in found:
            ledger.writer.record_unfinished(job)
        async with anyio.create_task_group() as group:
            for job in found:
                group.start_soon(ledger.writer.step, claimed(job))

        assert sum(feed) == many
        assert max(feed) <= group_commit.BATCH_STEPS_MAX


async def test_outputs_share_a_transaction_and_wait_in_memory_only_as_far_as_they_are_small_together(
    tmp_path: Path,
) -> None:
    large = b'"' + b"x" * (group_commit.BATCH_BYTES_MAX // 2) + b'"'
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2 * group_commit.PENDING_BYTES_MAX // len(large) + 4)
        found = await jobs_now(ledger)
        feed: list[int] = []
        ledger.writer.subscribe(lambda applied: feed.append(len(applied)))
        posted = 0
        for job in found:
            with anyio.move_on_after(0):
                await ledger.writer.room()
                ledger.writer.submit(
                    transitions.completed(job, an_outcome(job, output=large), reason="status", at=AT), lambda _: None
                )
                posted += 1
        assert posted == group_commit.PENDING_BYTES_MAX // len(large) + 1
        await ledger.writer.room()
        await ledger.writer.flush()
        await ledger.writer.room()

    assert feed == [1] * posted


async def test_pages_of_large_outputs_are_not_kept(tmp_path: Path) -> None:
    sizes = group_commit.SHRINK_BYTES_MIN // 64, group_commit.SHRINK_BYTES_MIN
    asked: list[str] = []
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, len(sizes))
        raw = await writers_connection(ledger)
        await raw.set_trace_callback(asked.append)
        for job, size in zip(await jobs_now(ledger), sizes, strict=True):
            outcome = an_outcome(job, output=b'"' + b"x" * size + b'"')
            await ledger.writer.step(transitions.completed(job, outcome, reason="status", at=AT))
            await ledger.writer.flush()
            asked.append("flushed")

    assert [word for word in asked if "shrink" in word or word == "flushed"] == [
        "flushed", "PRAGMA shrink_memory", "flushed",
    ]  # fmt: skip


async def writers_connection(ledger: Ledger) -> aiosqlite.Connection:
    database = ledger._site.database
    assert isinstance(database, Database)
    async with database._writer.connect() as connection:
        raw = (await connection.get_raw_connection()).driver_connection
        assert raw is not None
        return cast(aiosqlite.Connection, raw)


async def test_a_block_gets_its_result_and_steps_taken_inside_reach_the_feed(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        feed: list[Transition] = []
        ledger.writer.subscribe(feed.extend)
        step = claimed(await job_now(ledger))

        async def block(transaction: Transaction) -> list[Transition]:
            return await transaction.apply([step])

        assert await ledger.writer.run(block) == [step]
        assert await ledger.writer.run(block) == []
        assert await ledger.writer.run(a_word) == "word"
        assert feed == [step]


async def test_a_bad_entry_fails_alone(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 3)
        told: dict[int, bool] = {}
        raised: list[BaseException] = []
        feed: list[int] = []
        ledger.writer.subscribe(lambda applied: feed.extend(step.after.id for step in applied))

        async def take(step: Transition) -> None:
            told[step.before.id] = await ledger.writer.step(step)

        async def spoil() -> None:
            try:
                await ledger.writer.run(a_defect)
            except LookupError as error:
                raised.append(error)

        async with anyio.create_task_group() as group:
            for job in (await jobs_now(ledger))[:2]:
                group.start_soon(take, claimed(job))
            group.start_soon(spoil)
            group.start_soon(take, claimed((await jobs_now(ledger))[2]))

        assert len(raised) == 1
        assert told == {1: True, 2: True, 3: True}
        assert sorted(feed) == [1, 2, 3]
        assert [row[5] for row in dump(path)["jobs"]] == [1, 2, 3]


async def test_a_step_that_the_schema_forbids_fails_alone(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, 2)
        first, second = await jobs_now(ledger)
        forbidden = STEPS["claimed_for_retry"][1](first, AT)
        outcomes: dict[int, object] = {}

        async def take(step: Transition) -> None:
            try:
                outcomes[step.before.id] = await ledger.writer.step(step)
            except Exception as error:  # noqa: BLE001  what it is, is the question
                outcomes[step.before.id] = type(error).__name__

        async with anyio.create_task_group() as group:
            group.start_soon(take, forbidden)
            group.start_soon(take, claimed(second))

        assert outcomes == {1: "IntegrityError", 2: True}
        assert await job_now(ledger) == first


async def test_a_file_that_cannot_be_written_fails_everybody_and_heals(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 3)
        found = await jobs_now(ledger)
    async with at_work(path) as (own, _):
        errors: list[StorageError] = []

        async def take(job: Job) -> None:
            try:
                await own.apply([claimed(job)])
            except StorageError as error:
                errors.append(error)

        with closing(sqlite3.connect(path, isolation_level=None)) as other_program:
            other_program.execute("BEGIN IMMEDIATE")
            begun_s = running_loop().time()
            async with anyio.create_task_group() as group:
                for job in found:
                    group.start_soon(take, job)
        assert len(errors) == 3
        assert own.failure is errors[0]
        assert "another program has locked the ledger" in str(errors[0])
        assert running_loop().time() - begun_s < 2 * BUSY_TIMEOUT_S
        assert {row[6] for row in dump(path)["jobs"]} == {"queued"}

        assert await own.apply([claimed(found[0])]) == {1}
        assert own.failure is None


async def test_what_was_handed_over_before_the_end_is_written(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        ledger.writer.record_unfinished(msgspec.structs.replace(job, unfinished_at=AT + 77 * S))

    await anyio.sleep(1_100)  # a time that lies ahead would be brought back
    async with opened(path) as ledger:
        assert (await job_now(ledger)).unfinished_at == AT + 77 * S


@pytest.mark.parametrize("is_alone", [False, True])
async def test_what_nobody_waits_for_is_written_with_what_somebody_hands_over_or_soon(
    tmp_path: Path, is_alone: bool
) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        job = await brought_to(ledger, State.OUTSTANDING, AT)
        for seconds in (76, 77):
            ledger.writer.record_unfinished(msgspec.structs.replace(job, unfinished_at=AT + seconds * S))
        await anyio.sleep(group_commit.UNFINISHED_S / 2)
        assert (await job_now(ledger)).unfinished_at == job.unfinished_at, "a transaction of its own"

        await (anyio.sleep(group_commit.UNFINISHED_S) if is_alone else ledger.runs.count(1, "remarks"))
        assert (await job_now(ledger)).unfinished_at == AT + 77 * S


async def test_a_ledger_that_does_not_answer_is_given_up_and_nothing_is_written_afterwards(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 2)
        first, second = await jobs_now(ledger)
    before = dump(path)
    posted: list[Exception | None] = []
    async with at_work(path) as (own, _):

        async def hanging(transaction: Transaction) -> None:
            await anyio.sleep(10 * group_commit.ANSWER_S_MAX)

        async with anyio.create_task_group() as group:
            group.start_soon(_refused, partial(own.run, hanging))
            await anyio.sleep(1)
            group.start_soon(_refused, partial(own.apply, [claimed(first)]))
            own.submit(claimed(second), posted.append)
        assert [str(error) for error in posted] == [f"{path}: the ledger did not answer for 30 s"]
        await anyio.sleep(10 * group_commit.ANSWER_S_MAX)
        assert await own.run(a_word) == "word"

    assert dump(path) == before
    assert len(posted) == 1


async def _refused(hand_over: Callable[[], Awaitable[object]]) -> None:
    begun_s = running_loop().time()
    with pytest.raises(StorageError, match=r"l\.db: the ledger did not answer for 30 s"):
        await hand_over()
    assert running_loop().time() - begun_s <= 2 * group_commit.ANSWER_S_MAX


async def test_a_slow_ledger_in_which_transactions_end_is_not_given_up(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path):
        pass
    async with at_work(path) as (own, _):

        async def slow(transaction: Transaction) -> str:
            await anyio.sleep(0.9 * group_commit.ANSWER_S_MAX)
            return "done"

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(own.run, slow)
            await anyio.sleep(1)
            assert await own.run(slow) == "done"


async def test_a_posted_step_is_told_after_the_feed_and_a_stale_one_too(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger)
        job = await job_now(ledger)
    told: list[object] = []
    async with at_work(path) as (own, _):
        own.subscribe(lambda applied: told.extend(step.event for step in applied))
        own.submit(claimed(job), told.append)
        own.submit(claimed(job), told.append)
        assert told == []
        await own.apply(())

    assert told == [Event.CLAIMED, None, None]


async def test_whoever_comes_after_the_end_is_refused_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        pass
    begun_s = running_loop().time()
    with pytest.raises(StorageError, match=r"l\.db: the ledger is closed"):
        await ledger.writer.record_notice(Notice(submission=1, received_at=AT, record=None))

    assert running_loop().time() == begun_s


async def test_a_transaction_that_ends_late_leaves_its_caller_with_an_error(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path):
        pass
    async with at_work(path) as (own, _):

        async def slow(transaction: Transaction) -> None:
            await anyio.sleep(group_commit.ANSWER_S_MAX + 1)

        with pytest.raises(StorageError, match="did not answer"):
            await own.run(slow)


async def test_a_subscriber_that_raises_ends_the_writer_and_unwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path) as ledger:
        await a_run(ledger, 2)
        found = await jobs_now(ledger)

    def raising(applied: Sequence[Transition]) -> None:
        raise LookupError("a defect of a subscriber")

    told: list[frozenset[int]] = []
    database = Database(path, connect=async_creator(path))
    own = GroupCommitWriter(database, VirtualClock())
    own.subscribe(raising)

    async def take(job: Job) -> None:
        with anyio.CancelScope(shield=True):
            told.append(await own.apply([claimed(job)]))

    async def work() -> None:
        async with anyio.create_task_group() as group:
            for job in found:
                group.start_soon(take, job)
            group.start_soon(own.serve)

    with pytest.raises(ExceptionGroup) as caught:
        await work()
    await database.aclose()

    assert caught.group_contains(LookupError)
    assert sorted(told) == [{1}, {2}]
    assert {row[6] for row in dump(path)["jobs"]} == {"submitting"}


async def test_a_file_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    path = tmp_path / "none" / "l.db"
    database = Database(path, connect=async_creator(path))
    with pytest.raises(StorageError, match=r"cannot use the ledger \(unable to open database file\)"):
        async with database.reading():
            raise AssertionError("opened")
    await database.aclose()


# --- cancellation


@pytest.mark.parametrize("seed", range(5))
async def test_a_cancelled_caller_is_told_exactly_what_is_in_the_file(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    chance = random.Random(seed)
    async with opened(path) as ledger:
        await a_run(ledger, 60)
        found = await jobs_now(ledger)
    told: dict[int, bool] = {}

    async def take(own: GroupCommitWriter, job: Job, scope: anyio.CancelScope) -> None:
        with scope:
            await anyio.sleep(chance.random() / 20)
            told[job.id] = job.id in await own.apply([claimed(job)])
            await anyio.sleep(1)

    async def cancel(scope: anyio.CancelScope) -> None:
        await anyio.sleep(chance.random() / 20)
        scope.cancel()

    database = Database(path, connect=async_creator(path, delay=lambda: chance.random() / 100))
    own = GroupCommitWriter(database, VirtualClock())
    async with anyio.create_task_group() as outer:
        await outer.start(own.serve)
        async with anyio.create_task_group() as group:
            for job in found:
                scope = anyio.CancelScope()
                group.start_soon(take, own, job, scope)
                group.start_soon(cancel, scope)
        outer.cancel_scope.cancel()
    await database.aclose()

    in_file = {row[0] for row in dump(path)["jobs"] if row[6] == "submitting"}
    assert {job for job, applied in told.items() if applied} == in_file
    assert 0 < len(in_file) < 60
