"""Who owns a ledger on a server: one at a time, whoever bids, and none once it was deposed."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator.ledger.processes.leases import LeaseProof, Leases, Owner, ProcessName

pytestmark = pytest.mark.anyio

Connect = Callable[[str], Coroutine[Any, Any, Any]]

FIRST, SECOND, THIRD = (ProcessName(f"process {each}", f" #{each}") for each in "abc")


@pytest.fixture
async def connect(url: str) -> AsyncIterator[Connect]:
    """Connects to the ledger, with the mark of a process."""
    async with AsyncExitStack() as opened:

        async def connected(mark: str) -> Any:
            driver = await asyncpg.connect(
                url, server_settings={"application_name": f"orchestrator{mark}", "lock_timeout": "200"}, timeout=10
            )
            opened.callback(driver.terminate)
            return driver

        yield connected


async def owned(leases: Leases, process: ProcessName = FIRST) -> tuple[LeaseProof, Owner]:
    """`process` has the ledger."""
    held = await leases.take(process)
    owner = await leases.owner()
    assert held is not None
    assert owner is not None
    return held, owner


async def test_nobody_owns_a_new_ledger_and_whoever_takes_it_does(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    leases = Leases(driver)
    assert await leases.owner() is None

    held, owner = await owned(leases)

    assert (owner.owner, owner.epoch, owner.name, owner.beat) == (held.owner, held.epoch, FIRST.name, 0)
    assert owner.is_connected
    assert await driver.fetchval(held.fence) == 1
    assert await leases.take(SECOND) is None


async def test_of_many_who_take_at_once_one_gets_it(connect: Connect) -> None:
    got: list[LeaseProof | None] = []

    async def take(driver: Any) -> None:
        got.append(await Leases(driver).take(FIRST))

    drivers = [await connect("") for _ in range(6)]
    async with anyio.create_task_group() as tasks:
        for driver in drivers:
            tasks.start_soon(take, driver)
    assert sorted(each is None for each in got) == [False] + [True] * 5


async def test_who_lets_go_is_followed_at_once_under_another_epoch(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    leases = Leases(driver)
    held, _ = await owned(leases)

    await leases.leave(held)

    assert await leases.owner() is None
    assert await driver.fetchval(held.fence) is None
    after, _ = await owned(leases, SECOND)
    assert after.epoch == held.epoch + 1
    await leases.leave(held)  # once more, late: it takes nothing from its successor
    assert await driver.fetchval(after.fence) == 1


async def test_a_beat_is_seen_and_whoever_bid_for_the_one_before_does_not_get_it(connect: Connect) -> None:
    leases, other = Leases(await connect(FIRST.mark)), Leases(await connect(SECOND.mark))
    held, seen = await owned(leases)

    assert await leases.beat(held)

    assert await other.take_over(seen, SECOND) is None
    now = await other.owner()
    assert now is not None
    assert (now.owner, now.beat) == (held.owner, seen.beat + 1)


async def test_of_two_who_bid_for_the_same_silence_one_gets_it(connect: Connect) -> None:
    _, seen = await owned(Leases(await connect(FIRST.mark)))
    got: list[LeaseProof | None] = []

    async def bid(leases: Leases, process: ProcessName) -> None:
        got.append(await leases.take_over(seen, process))

    bidders = [(Leases(await connect(each.mark)), each) for each in (SECOND, THIRD)]
    async with anyio.create_task_group() as tasks:
        for leases, process in bidders:
            tasks.start_soon(partial(bid, leases, process))
    assert sorted(each is None for each in got) == [False, True]


async def test_who_was_deposed_can_prove_nothing_and_beat_no_more(connect: Connect) -> None:
    held, seen = await owned(Leases(await connect(FIRST.mark)))
    successor = Leases(await connect(SECOND.mark))
    after = await successor.take_over(seen, SECOND)
    assert after is not None

    again = await connect(FIRST.mark)

    assert await again.fetchval(held.fence) is None
    assert not await Leases(again).beat(held)
    await Leases(again).leave(held)
    assert await again.fetchval(after.fence) == 1


async def test_a_transaction_that_stands_still_is_ended_by_the_successor_and_leaves_nothing(connect: Connect) -> None:
    stopped, successor = await connect(FIRST.mark), await connect(SECOND.mark)
    held, seen = await owned(Leases(stopped))
    await stopped.execute(f"BEGIN; {held.fence}; INSERT INTO counts (run_id, name, n) VALUES (1, 'a', 1)")

    assert await Leases(successor).take_over(seen, SECOND) is not None

    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await stopped.execute("COMMIT")
    assert await successor.fetchval("SELECT count(*) FROM counts") == 0


async def test_whoever_has_proved_it_keeps_it_until_its_transaction_has_ended(connect: Connect) -> None:
    at_work, successor = await connect(" #z"), await connect(SECOND.mark)
    held, seen = await owned(Leases(at_work))
    await at_work.execute(f"BEGIN; {held.fence}")

    with pytest.raises(asyncpg.LockNotAvailableError):
        await Leases(successor).take_over(seen, SECOND)

    await at_work.execute("COMMIT")
    assert await Leases(successor).take_over(seen, SECOND) is not None


async def test_nobody_elses_connections_are_ended(connect: Connect) -> None:
    _, seen = await owned(Leases(await connect(FIRST.mark)))
    beside, successor = await connect(""), await connect(SECOND.mark)

    assert await Leases(successor).take_over(seen, SECOND) is not None

    assert await beside.fetchval("SELECT 1") == 1


async def test_whether_an_owner_is_connected_is_seen(connect: Connect) -> None:
    driver, other = await connect(FIRST.mark), await connect(SECOND.mark)
    await owned(Leases(driver))

    await driver.close()

    while (owner := await Leases(other).owner()) is not None and owner.is_connected:
        await anyio.lowlevel.checkpoint()  # the server has yet to notice
    assert owner is not None


async def test_who_does_not_know_that_it_has_the_ledger_already_takes_it_over_from_itself(connect: Connect) -> None:
    leases = Leases(await connect(FIRST.mark))
    _, unknown = await owned(leases)

    proof = await leases.take_over(unknown, FIRST)

    assert proof is not None
    assert proof.owner != unknown.owner
    assert await leases.beat(proof)
