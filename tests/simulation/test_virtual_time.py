"""The simulation's own ground: virtual time, the database on it, crashes."""

import gc
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from orchestrator.clock import SystemClock
from orchestrator.units import SECOND_US
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.loop import DeadlockError, VirtualLoop, running_loop
from tests.simulation.run import Crash, run, run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time(seed=7)]

REAL_S_MAX = 5.0
"""Generous: the point is that virtual hours are not real ones."""

rows = Table("rows", MetaData(), Column("id", Integer, primary_key=True), Column("word", String))


@asynccontextmanager
async def opened(path: Path, delay: Callable[[], float] | None = None) -> AsyncIterator[AsyncEngine]:
    """An engine on the file at `path`, with the table."""
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}", async_creator=async_creator(path, delay=delay, whole=False)
    )
    try:
        async with engine.connect() as connection:
            await connection.run_sync(rows.metadata.create_all)
        yield engine
    finally:
        await engine.dispose()


async def add(connection: AsyncConnection, *words: str) -> None:
    """One transaction that inserts `words`."""
    await connection.exec_driver_sql("BEGIN IMMEDIATE")
    for word in words:
        await connection.execute(insert(rows).values(word=word))
    await connection.exec_driver_sql("COMMIT")


def words_in(path: Path) -> list[str]:
    connection = sqlite3.connect(path, timeout=0)
    try:
        return [word for (word,) in connection.execute("SELECT word FROM rows ORDER BY id")]
    finally:
        connection.close()


async def test_a_test_marked_for_virtual_time_starts_at_zero_with_the_seed_of_its_module() -> None:
    assert running_loop().time() == 0
    assert running_loop().random.random() == Random(7).random()


async def test_an_hour_of_sleep_takes_no_real_time() -> None:
    real = SystemClock()
    begun_at = real.now()
    await anyio.sleep(3600)
    assert running_loop().time() == 3600
    assert real.now() - begun_at < REAL_S_MAX * SECOND_US


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    woken: list[tuple[float, float]] = []

    async def sleeper(delay_s: float) -> None:
        await anyio.sleep(delay_s)
        woken.append((delay_s, anyio.current_time()))

    async with anyio.create_task_group() as group:
        for delay_s in (3.5, 0.25, 86_400.0 * 7, 1.0):
            group.start_soon(sleeper, delay_s)
    assert woken == [(0.25, 0.25), (1.0, 1.0), (3.5, 3.5), (604_800.0, 604_800.0)]


async def test_fail_after_fails_at_its_very_time() -> None:
    with pytest.raises(TimeoutError):
        with anyio.fail_after(30):
            await anyio.sleep_forever()
    assert running_loop().time() == 30


async def test_the_clock_stands_at_the_microsecond_of_the_timer_that_fires() -> None:
    clock = VirtualClock()
    assert clock.now() == EPOCH_AT
    for us in (1, 999_999, 3, 7 * 86_400 * SECOND_US):
        before_at = clock.now()
        await anyio.sleep(us / SECOND_US)
        assert clock.now() == before_at + us


async def test_the_clock_jumps_forward_and_never_goes_back() -> None:
    clock = VirtualClock(epoch_at=0)
    clock.jump(5 * SECOND_US)
    assert clock.now() == 5 * SECOND_US
    clock.jump(-3 * SECOND_US)
    assert clock.now() == 5 * SECOND_US
    await anyio.sleep(4)
    assert clock.now() == 6 * SECOND_US


def test_outside_a_loop_the_clock_stands_still_and_the_next_world_goes_on_from_there() -> None:
    clock = VirtualClock()

    async def an_hour() -> None:
        await anyio.sleep(3600)
        clock.now()

    async def now() -> int:
        return clock.now()

    run(an_hour)
    assert clock.now() == EPOCH_AT + 3600 * SECOND_US
    assert run(now) == EPOCH_AT + 3600 * SECOND_US
    assert run(now, start_s=4000) == EPOCH_AT + 4000 * SECOND_US


def test_a_deadlock_is_reported_with_every_task_and_where_it_waits() -> None:
    async def waits_for_a_lost_event() -> None:
        await anyio.Event().wait()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(waits_for_a_lost_event, name="the collector")
            await anyio.sleep(5)

    with pytest.raises(DeadlockError) as caught:
        run(main)
    report = str(caught.value)
    assert "no timer is set (at 5.000000 s)" in report
    assert "the collector waits" in report
    assert "test_virtual_time.py" in report
    assert "waits_for_a_lost_event" in report


def test_sleeping_forever_is_a_deadlock_too() -> None:
    with pytest.raises(DeadlockError):
        run(anyio.sleep_forever)


async def test_a_busy_program_is_charged_for_its_rounds_so_that_timers_come() -> None:
    with anyio.move_on_after(1):
        while True:
            await anyio.lowlevel.checkpoint()
    assert running_loop().time() == pytest.approx(1, abs=0.001)


async def test_a_thread_is_waited_for_in_real_time_while_virtual_time_stands_still() -> None:
    gate = threading.Event()

    def opens_the_gate_and_answers() -> str:
        gate.set()
        return "done"

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 3600)
        assert await anyio.to_thread.run_sync(opens_the_gate_and_answers) == "done"
        assert gate.is_set()
        assert running_loop().time() == 0
    assert running_loop().time() == 3600


async def test_a_thread_of_an_executor_is_waited_for_too() -> None:
    assert await running_loop().run_in_executor(None, threading.get_ident) != threading.get_ident()
    await anyio.sleep(1)
    assert running_loop().time() == 1


async def test_an_answer_of_a_real_server_is_waited_for_while_virtual_time_stands_still() -> None:
    loop = running_loop()
    answer = loop.stands_still_for(loop.create_future())
    server = threading.Thread(target=loop.call_soon_threadsafe, args=(answer.set_result, "done"))
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 3_600)
        await anyio.lowlevel.checkpoint()
        server.start()
        assert await answer == "done"
        assert loop.time() == 0
    assert loop.time() == 3_600
    server.join()


async def test_a_thread_may_call_back_into_the_loop() -> None:
    def asks() -> float:
        return anyio.from_thread.run_sync(anyio.current_time)

    await anyio.sleep(2)
    assert await anyio.to_thread.run_sync(asks) == 2


def test_off_virtual_time_there_is_no_virtual_loop() -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="virtual time only"):
            running_loop()

    anyio.run(main)


async def test_the_database_works_without_a_thread(tmp_path: Path) -> None:
    threads = set(threading.enumerate())
    async with opened(tmp_path / "ledger") as engine, engine.connect() as connection:
        await add(connection, "first", "second")
        words = (await connection.execute(select(rows.c.word).order_by(rows.c.id))).scalars().all()
        assert words == ["first", "second"]
        assert set(threading.enumerate()) <= threads  # those of other tests may end meanwhile
    gc.collect()  # a connection left open would warn here, and warnings are errors
    assert words_in(tmp_path / "ledger") == ["first", "second"]
    assert running_loop().time() == 0


async def test_the_errors_of_the_database_reach_the_caller(tmp_path: Path) -> None:
    async with opened(tmp_path / "ledger") as engine, engine.connect() as connection:
        await connection.execute(insert(rows).values(id=1))
        with pytest.raises(IntegrityError):
            await connection.execute(insert(rows).values(id=1))


async def test_a_driver_connection_can_be_used_and_stopped_without_sqlalchemy(tmp_path: Path) -> None:
    connection = await async_creator(tmp_path / "ledger", delay=lambda: 0.5, whole=False)()
    async with await connection.execute("SELECT 1 UNION SELECT 2") as cursor:
        assert [row async for row in cursor] == [(1,), (2,)]
    stopped = connection.stop()
    assert stopped is not None
    await stopped
    assert running_loop().time() > 1


async def test_each_call_of_the_database_takes_the_time_it_is_given(tmp_path: Path) -> None:
    connection = await async_creator(tmp_path / "ledger", delay=lambda: 0.25, whole=False)()
    for expected_s in (0.5, 0.75):
        await connection.execute("SELECT 1")
        assert running_loop().time() == expected_s
    await connection.close()


async def test_a_cancelled_call_has_its_effect_and_does_not_block_the_next(tmp_path: Path) -> None:
    connection = await async_creator(tmp_path / "ledger", delay=lambda: 1.0, whole=False)()
    await connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, word TEXT)")
    with anyio.move_on_after(0.1):
        await connection.execute("INSERT INTO rows (word) VALUES ('cancelled')")
    assert words_in(tmp_path / "ledger") == []
    await connection.execute("INSERT INTO rows (word) VALUES ('next')")
    assert words_in(tmp_path / "ledger") == ["cancelled", "next"]
    await connection.close()


async def test_commits_interleave_and_a_writer_waits_for_another_on_virtual_time(tmp_path: Path) -> None:
    random = Random(1)
    async with opened(tmp_path / "ledger", lambda: random.uniform(0, 0.02)) as engine:

        async def writer(name: str) -> None:
            async with engine.connect() as connection:
                await connection.exec_driver_sql("PRAGMA busy_timeout = 60000")
                for _ in range(4):
                    await add(connection, name)

        async with anyio.create_task_group() as group:
            for name in "abc":
                group.start_soon(writer, name)
    words = words_in(tmp_path / "ledger")
    assert sorted(words) == sorted("aaaabbbbcccc")
    assert words != sorted(words)


async def test_a_database_locked_for_too_long_is_an_error(tmp_path: Path) -> None:
    holder = await async_creator(tmp_path / "ledger", whole=False)()
    waiter = await async_creator(tmp_path / "ledger", whole=False)()
    await holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await waiter.execute("BEGIN IMMEDIATE")
    assert running_loop().time() == pytest.approx(5, abs=0.1)
    await holder.close()
    await waiter.close()


def test_a_crash_in_a_transaction_leaves_the_old_rows_and_runs_no_clean_up(tmp_path: Path) -> None:
    crash = Crash()
    cleaned: list[str] = []

    async def bystander() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            cleaned.append("bystander")

    async def reads_for_ever(engine: AsyncEngine, started: anyio.Event) -> None:
        async with engine.connect() as connection, connection.stream(select(rows)) as stream:
            await stream.fetchone()
            started.set()
            await anyio.sleep_forever()

    async def main() -> None:
        try:
            async with opened(tmp_path / "ledger", lambda: 0.01) as engine, engine.connect() as connection:
                await connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                await add(connection, "old", "older")
                async with anyio.create_task_group() as group:
                    group.start_soon(bystander)
                    started = anyio.Event()
                    group.start_soon(reads_for_ever, engine, started)
                    await started.wait()
                    await connection.exec_driver_sql("BEGIN IMMEDIATE")
                    await connection.execute(insert(rows).values(word="new"))
                    await crash.here()
        finally:
            cleaned.append("main")

    async def next_world() -> None:
        async with opened(tmp_path / "ledger") as engine, engine.connect() as connection:
            await add(connection, "after the crash")

    crashed_at_s = run_until_crash(main)
    assert crashed_at_s is not None
    assert crashed_at_s == crash.at_s
    gc.collect()
    assert words_in(tmp_path / "ledger") == ["old", "older"]
    run(next_world, start_s=crashed_at_s)
    gc.collect()
    assert words_in(tmp_path / "ledger") == ["old", "older", "after the crash"]
    assert cleaned == []


def test_nothing_runs_after_the_step_that_pulled_the_trigger(tmp_path: Path) -> None:
    crash = Crash()
    steps: list[str] = []

    async def other() -> None:
        steps.append("other ran")

    async def main() -> None:
        connection = await async_creator(tmp_path / "ledger", whole=False)()
        await connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, word TEXT)")
        async with anyio.create_task_group() as group:
            group.start_soon(other)
            crash.pull()
            group.start_soon(other)
            steps.append("the step ends")
            await connection.execute("INSERT INTO rows (word) VALUES ('from the grave')")
            steps.append("the next step")

    assert run_until_crash(main) == 0
    gc.collect()
    assert steps == ["the step ends"]
    assert words_in(tmp_path / "ledger") == []


def test_a_crash_can_come_at_every_call_of_the_database_and_keeps_a_prefix(tmp_path: Path) -> None:
    def world(path: Path, calls_left: int) -> float | None:
        crash = Crash()

        def delay() -> float:
            nonlocal calls_left
            calls_left -= 1
            if calls_left == 0:
                crash.pull()
            return 0.01

        async def main() -> None:
            connection = await async_creator(path, delay=delay, whole=False)()
            for word in "abc":
                await connection.execute("BEGIN IMMEDIATE")
                await connection.execute("INSERT INTO rows (word) VALUES (?)", (word,))
                await connection.execute("COMMIT")
            await connection.close()

        return run_until_crash(main)

    path = tmp_path / "ledger"
    seen = []
    for calls in range(1, 100):
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, word TEXT)")
        connection.close()
        crashed_at_s = world(path, calls)
        seen.append("".join(words_in(path)))
        if crashed_at_s is None:
            break
    # Connecting, then three calls for each word with the effect of the third, then the two of closing.
    assert seen == ["", "", "", "", "a", "a", "a", "ab", "ab", "ab", "abc", "abc", "abc"]


def test_a_crash_leaves_no_thread_behind() -> None:
    crash = Crash()
    threads = set(threading.enumerate())

    async def main() -> None:
        await anyio.to_thread.run_sync(threading.get_ident)
        await crash.here()

    assert run_until_crash(main) == 0
    for thread in set(threading.enumerate()) - threads:
        thread.join(REAL_S_MAX)
        assert not thread.is_alive()


def test_a_world_that_ends_before_the_crash_says_so() -> None:
    async def main() -> None:
        await anyio.sleep(1)

    assert run_until_crash(main) is None


def trace_of(path: Path, seed: int) -> list[tuple[int, str]]:
    """What happened, and when, in a small world with chance, contention, a time-out and a cancellation."""
    trace: list[tuple[int, str]] = []
    clock = VirtualClock()

    async def worker(engine: AsyncEngine, name: str) -> None:
        try:
            async with engine.connect() as connection:
                while True:
                    await anyio.sleep(running_loop().random.expovariate(2))
                    with anyio.CancelScope(shield=True):
                        await add(connection, name)
                    trace.append((clock.now(), name))
        finally:
            trace.append((clock.now(), f"{name} ends"))

    async def main() -> None:
        random = running_loop().random
        async with opened(path, lambda: random.uniform(0, 0.02)) as engine:
            with anyio.move_on_after(20):
                async with anyio.create_task_group() as group:
                    for name in "abcd":
                        group.start_soon(worker, engine, name)

    run(main, seed=seed)
    return trace


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_and_another_seed_another(tmp_path: Path) -> None:
    traces = [trace_of(tmp_path / f"ledger-{number}", seed) for number, seed in enumerate((1, 1, 2))]
    assert len(traces[0]) > 20
    assert traces[0] == traces[1]
    assert traces[0] != traces[2]


def test_tasks_are_cancelled_in_the_order_in_which_they_were_started() -> None:
    ended: list[int] = []

    async def sleeper(number: int) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(number)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(sleeper, number)
            await anyio.sleep(1)
            group.cancel_scope.cancel()

    run(main)
    assert ended == list(range(100))


def test_a_closed_loop_can_be_closed_again() -> None:
    loop = VirtualLoop()
    loop.close()
    loop.close()
    assert loop.is_closed()
