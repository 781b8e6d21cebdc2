"""The processes of a ledger on a server: each with a slot of its own while it lives, and dead for good."""

from functools import partial
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator import __version__
from orchestrator.core.ownership.lease import PROCESSES_MAX
from orchestrator.ledger.jobs.claims import SLOTS
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Process, Processes, ProcessName, ProcessNumber
from tests.ledger.processes.conftest import FIRST, SECOND, THIRD, Connect
from tests.postgres.owners import joins, owner_of, present, takes, takes_over

pytestmark = pytest.mark.anyio

WRITE = "INSERT INTO counts (run_id, name, n) VALUES (1, 'a', 1)"


async def test_each_has_a_slot_of_its_own_and_a_number_that_does_not_come_back(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    processes = Processes(driver)
    first, second, third = [await joins(driver, each) for each in (FIRST, SECOND, THIRD)]
    assert [each.slot for each in (first, second, third)] == [0, 1, 2]

    await processes.leave(second)
    again = await joins(driver, SECOND)

    assert again.slot == second.slot
    assert again.id > third.id
    told = {each.id: (each.name, each.version, each.beat) for each in await present(driver)}
    assert told[again.id] == (SECOND.name, __version__, 0)
    assert second.id not in told


def test_there_are_as_many_slots_as_claims_give_numbers_for() -> None:
    assert PROCESSES_MAX == SLOTS


async def test_of_many_who_join_at_once_each_gets_a_slot_of_its_own(connect: Connect) -> None:
    got: list[ProcessNumber] = []

    async def join(driver: Any) -> None:
        got.append(await joins(driver, FIRST))

    drivers = [await connect("") for _ in range(8)]
    async with anyio.create_task_group() as tasks:
        for driver in drivers:
            tasks.start_soon(join, driver)
    assert sorted(each.slot for each in got) == list(range(8))


async def test_one_too_many_gets_none_until_another_one_has_gone(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    all_of_them = [await joins(driver, FIRST) for _ in range(PROCESSES_MAX)]
    assert await Processes(driver).join(SECOND) is None

    await Processes(driver).leave(all_of_them[7])

    assert (await joins(driver, SECOND)).slot == 7


async def test_a_beat_is_seen_and_whoever_saw_the_one_before_cannot_declare_it_dead(connect: Connect) -> None:
    processes, driver = Processes(await connect(FIRST.mark)), await connect(SECOND.mark)
    other = Processes(driver)
    number = await processes.join(FIRST)
    assert number is not None
    [seen] = await present(driver)

    assert await processes.beat(number)

    assert not await other.declare_dead(seen)
    assert [each.beat for each in await present(driver)] == [seen.beat + 1]


async def test_of_two_who_declare_the_same_one_dead_one_does(connect: Connect) -> None:
    await takes(await connect(""), FIRST)
    got: list[bool] = []

    async def declare(driver: Any, silent: Process) -> None:
        got.append(await Processes(driver).declare_dead(silent))

    bidders = [await connect(each.mark) for each in (SECOND, THIRD)]
    silent = await owner_of(bidders[0])
    async with anyio.create_task_group() as tasks:
        for driver in bidders:
            tasks.start_soon(partial(declare, driver, silent))
    assert sorted(got) == [False, True]


async def test_who_was_declared_dead_can_prove_nothing_beat_no_more_and_take_nothing(connect: Connect) -> None:
    number = await takes(await connect(FIRST.mark), FIRST)
    successor = await takes_over(await connect(SECOND.mark), SECOND)
    again = await connect(FIRST.mark)

    assert await again.fetchval(number.fence) is None
    assert not await Processes(again).beat(number)
    await Processes(again).leave(number)
    assert await Leases(again).take(number, [0]) == []
    assert await again.fetchval(successor.fence) == 1
    back = await joins(again, FIRST)
    assert back.id != number.id
    assert not await Processes(again).beat(number), "what it was is not revived by what it is"
    assert await again.fetchval(number.fence) is None


async def test_a_number_that_is_given_twice_proves_nothing_for_the_one_before(connect: Connect) -> None:
    """A standby that was promoted too early gives numbers that were given before."""
    driver = await connect(FIRST.mark)
    before = await joins(driver, FIRST)
    await Processes(driver).leave(before)
    await driver.execute("SELECT setval(pg_get_serial_sequence('processes', 'id'), 1, false)")
    after = await joins(driver, SECOND)
    assert after.id == before.id

    assert not await Processes(driver).beat(before)
    assert await driver.fetchval(before.fence) is None
    await Processes(driver).leave(before)
    assert await Processes(driver).beat(after)


async def test_a_transaction_that_stands_still_is_ended_by_who_declares_its_process_dead_and_leaves_nothing(
    connect: Connect,
) -> None:
    stopped, successor = await connect(FIRST.mark), await connect(SECOND.mark)
    number = await takes(stopped, FIRST)
    await stopped.execute(f"BEGIN; {number.fence}; {WRITE}")

    await takes_over(successor, SECOND)

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await stopped.execute("COMMIT")
    assert await successor.fetchval("SELECT count(*) FROM counts") == 0


async def test_whoever_has_proved_that_it_lives_does_so_until_its_transaction_has_ended_and_beats_meanwhile(
    connect: Connect,
) -> None:
    at_work, line, successor = await connect(" #z"), await connect(FIRST.mark), await connect(SECOND.mark)
    number = await takes(line, FIRST)
    await at_work.execute(f"BEGIN; {number.fence}")

    assert await Processes(line).beat(number)
    with pytest.raises(asyncpg.LockNotAvailableError):
        await takes_over(successor, SECOND)

    await at_work.execute("COMMIT")
    await takes_over(successor, SECOND)


async def test_what_it_took_while_its_row_was_waited_for_is_freed_as_well(connect: Connect) -> None:
    at_work, bidder = await connect(" #z"), await connect(SECOND.mark)
    number = await joins(at_work, FIRST)
    await Leases(at_work).sighting()
    [silent] = await present(bidder)
    await at_work.execute("BEGIN")
    assert await Leases(at_work).take(number, [0])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Processes(bidder).declare_dead, silent)
        while not await at_work.fetchval("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"):
            await anyio.lowlevel.checkpoint()
        await at_work.execute("COMMIT")

    [lease] = (await Leases(bidder).sighting()).leases
    assert (lease.owner, lease.left_at is None) == (None, False)
    assert await present(bidder) == []


async def test_nobody_elses_connections_are_ended(connect: Connect) -> None:
    await takes(await connect(FIRST.mark), FIRST)
    beside, successor = await connect(""), await connect(SECOND.mark)

    await takes_over(successor, SECOND)

    assert await beside.fetchval("SELECT 1") == 1


async def test_whether_one_is_connected_is_seen(connect: Connect) -> None:
    driver, other = await connect(FIRST.mark), await connect(SECOND.mark)
    await takes(driver, FIRST)
    owner = await owner_of(other)
    assert await Processes(other).is_connected(owner)

    await driver.close()

    while await Processes(other).is_connected(owner):
        await anyio.lowlevel.checkpoint()  # the server has yet to notice


async def test_a_mark_is_said_as_it_is_whatever_is_in_it(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    number = await joins(driver, ProcessName("a", " #it's"))
    assert await driver.fetchval(number.fence) == 1


async def test_of_two_of_one_name_the_later_one_has_a_number_behind_it(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    processes = Processes(driver)
    first, second = await processes.join(FIRST), await processes.join(ProcessName(FIRST.name, SECOND.mark))
    assert first is not None
    assert second is not None
    assert [each.name for each in await present(driver)] == [FIRST.name, f"{FIRST.name}, {second.slot + 1}"]
    await processes.leave(first)
    assert await processes.join(FIRST) is not None
    assert [each.name for each in await present(driver)] == [f"{FIRST.name}, {second.slot + 1}", FIRST.name]
