"""Several processes of a ledger on a server share its shards: none has two owners, and none is forgotten."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.handover import EndpointLeft
from orchestrator.core.ownership.lease import GONE_US, PROCESSES_MAX
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.owners_line import SETTINGS
from orchestrator.ledger.processes.processes import Processes
from orchestrator.ledger.processes.shard_owner import ShardOwner, shard_owner_of
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.units import SECOND_US
from tests.ledger.processes.conftest import FIRST, SECOND, THIRD
from tests.ledger.processes.place import ASKS, NEXT, OWNER, Place
from tests.postgres.ledgers import on_virtual_time, waited_for
from tests.postgres.owners import joins, present, takes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TAKEN_S_MAX = 9.0
"""So soon after its owner's last beat a shard has another one."""


@pytest.fixture
async def driver(url: str) -> AsyncIterator[Any]:
    """A connection to a ledger with two endpoints."""
    driver = await waited_for(url)({}, LineBounds())
    await driver.execute("INSERT INTO endpoints (service_url, endpoint) VALUES ('u', 'a'), ('u', 'b')")
    yield driver
    driver.terminate()


def member(url: str, name: Any, here: ThisProcess | None = None) -> AbstractAsyncContextManager[ShardOwner]:
    return shard_owner_of("ledger", waited_for(url), name, here=here or on_virtual_time())


def numbers(of: ShardOwner) -> list[int]:
    return sorted(taken.shard for taken in of.shards)


async def test_two_have_different_shards_and_each_its_own_slot(url: str, driver: Any) -> None:
    async with member(url, FIRST) as first, member(url, SECOND) as second:
        assert (first.slot, second.slot) == (0, 1)
        await first.look()
        await first.take([0, 1])
        await second.take([1, 2])
        assert (numbers(first), numbers(second)) == ([0, 1], [2])
        assert await driver.fetchval(first.fence) == await driver.fetchval(second.fence) == 1
        owners = {lease.shard: lease.owner for lease in (await second.look()).leases}
        assert owners == {0: first.number, 1: first.number, 2: second.number}


async def test_one_is_given_to_who_asked_for_it(url: str, driver: Any) -> None:
    async with member(url, FIRST) as first, member(url, SECOND) as second:
        await first.look()
        await first.take([0, 1, 2])
        await second.ask_for(2)
        [asked] = [lease for lease in (await first.look()).leases if lease.wanted_by == second.number]
        await first.give(asked.as_taken)
        await first.take([2])
        await second.take([2])
        assert (numbers(first), numbers(second)) == ([0, 1], [2])


async def test_what_it_was_not_told_it_learns_when_it_looks(url: str, driver: Any) -> None:
    """A word may have been heard though its answer was lost."""
    async with member(url, FIRST) as first:
        await first.look()
        await Leases(driver).take(first._membership.number, [1])
        await first.look()
        [taken] = first.shards
        assert taken.shard == 1
        await Leases(driver).give(first._membership.number, taken, is_settled=True)
        await first.look()
        assert not first.shards


async def test_what_one_that_beats_no_more_had_is_told_to_be_left_for_as_long_as_that_matters(
    url: str, driver: Any
) -> None:
    async with AsyncExitStack() as opened:
        silent = await opened.enter_async_context(member(url, FIRST))
        await silent.look()
        await silent.take([1])
        await driver.execute("UPDATE processes SET mark = ' #z'")  # none of its words is heard any more
        async with member(url, SECOND) as second:
            while (await second.look()).processes.keys() != {second.number}:  # noqa: ASYNC110  nobody tells of it
                await anyio.sleep(1)
            await second.take([1, 2])
            assert {each.shard: each.was_left for each in second.shards} == {1: True, 2: False}
            assert second.farewell().settled == [2]
            assert silent.why_lost is not None
            assert not silent.may_leave()
            await anyio.sleep(GONE_US / SECOND_US)
            assert second.farewell().settled == [1, 2]


async def looks(other: ShardOwner, for_s: float) -> None:
    """`other` looks for so long, also while it cannot ask."""
    ends_s = anyio.current_time() + for_s
    while anyio.current_time() < ends_s:
        with suppress(ConnectionError, asyncpg.InterfaceError):
            await other.look()
        await anyio.sleep(0.25)


async def test_whoever_beats_keeps_what_it_has_however_long_another_one_looks(place: Place) -> None:
    async with place.tenure(OWNER) as owner, place.member(NEXT) as other:
        await looks(other, 120)
        await other.take([0])
        assert not other.shards
        assert owner.may_leave()
        assert owner.why_lost is None


async def test_what_one_has_that_beats_no_more_is_free_for_another_one_though_it_is_connected(place: Place) -> None:
    await takes(await place.driver(OWNER), OWNER)
    began_s = anyio.current_time()
    async with place.member(NEXT) as other:
        with anyio.fail_after(TAKEN_S_MAX):
            while not other.shards:
                await looks(other, 0.25)
                await other.take([0])
        assert anyio.current_time() - began_s >= SILENCE_US / SECOND_US
        assert other.is_successor
        assert other.may_leave()


async def test_the_time_in_which_the_ledger_was_away_does_not_count_against_its_owner(place: Place) -> None:
    async with place.tenure(OWNER) as owner, place.member(NEXT) as other, anyio.create_task_group() as tasks:
        tasks.start_soon(looks, other, 100)
        for _ in range(3):
            await anyio.sleep(3)
            for process in (OWNER, NEXT):
                place.cut_off(process)
            await anyio.sleep(20.3)
            place.away.clear()  # whoever looks does so before the owner beats
        await anyio.sleep(10)
        assert owner.why_lost is None
        assert owner.may_leave()
        tasks.cancel_scope.cancel()


async def test_how_endpoints_are_left_comes_with_their_shard_and_to_one_alone(url: str, driver: Any) -> None:
    await driver.execute("INSERT INTO endpoints (service_url, endpoint, shard_id) VALUES ('u', 'c', 1)")
    left = {number: EndpointLeft(number, {}) for number in (1, 2, 3)}
    async with member(url, SECOND) as second:
        async with member(url, FIRST) as first:
            await first.look()
            await first.take([0, 1, 2])
            for number, each in left.items():
                first.endpoints_left.leave(number, each)
            [given] = [taken for taken in first.shards if taken.shard == 1]
            await first.give(given)
            await second.take([0, 1, 2])
            assert numbers(second) == [1]
            assert [second.endpoints_left.of(number) for number in (1, 2, 3)] == [left[1], None, left[3]]
        await second.take([0, 2])
        assert numbers(second) == [0, 1, 2]
        assert [second.endpoints_left.of(number) for number in (1, 2, 3)] == [None, left[2], None]
    async with member(url, FIRST) as first:
        await first.take([0, 1, 2])
        assert numbers(first) == [0, 1, 2]
        assert [first.endpoints_left.of(number) for number in (1, 2, 3)] == [None] * 3, (
            "the one before left nothing more"
        )


async def test_one_process_is_there_once(url: str, driver: Any) -> None:
    here = on_virtual_time()
    async with member(url, FIRST, here):
        with pytest.raises(LedgerBusyError, match="this process works on this ledger already"):
            async with member(url, FIRST, here):
                raise AssertionError("it is there twice")
    async with member(url, FIRST, here):
        pass


async def test_who_gets_one_back_goes_on_as_the_owner_between_has_left_it(url: str, driver: Any) -> None:
    async with member(url, FIRST) as first, member(url, SECOND) as second:
        await first.look()
        for was, becomes, at in ((first, second, 1), (second, first, 2)):
            await was.take([1])
            was.endpoints_left.leave(1, EndpointLeft(at, {}))
            [taken] = was.shards
            await was.give(taken)
            await becomes.take([1])
            assert numbers(becomes) == [1]
            assert becomes.endpoints_left.of(1) == EndpointLeft(at, {})


async def test_what_is_left_is_told_of_no_shard_whose_owner_between_has_left_nothing(url: str, driver: Any) -> None:
    async with member(url, FIRST) as first:
        await first.look()
        await first.take([1])
        first.endpoints_left.leave(1, EndpointLeft(1, {}))
        [taken] = first.shards
        await first.give(taken)
        assert first.endpoints_left.text == "{}"
        async with member(url, SECOND) as second:
            await second.take([1])
            assert second.endpoints_left.of(1) == EndpointLeft(1, {})
        await first.take([1])
        assert first.endpoints_left.of(1) is None


async def test_how_one_was_left_that_an_owner_between_had_who_is_dead_is_news_of_nobody(url: str, driver: Any) -> None:
    async with member(url, FIRST) as first:
        await first.look()
        await first.take([1])
        first.endpoints_left.leave(1, EndpointLeft(1, {}))
        [taken] = first.shards
        leases, left = Leases(driver), first.endpoints_left.text
        await leases.give(first._membership.number, taken, is_settled=True, handover=left)
        await first.look()  # so it learns that the word was heard whose answer was lost
        between = await joins(driver, SECOND)
        await leases.take(between, [1])
        [dead] = [process for process in await present(driver) if process.id == between.id]
        assert await Processes(driver).declare_dead(dead)
        await first.take([1])
        assert numbers(first) == [1]
        assert first.endpoints_left.of(1) is None


async def test_who_was_not_told_how_one_was_left_goes_by_nothing_that_it_knew_before(url: str, driver: Any) -> None:
    async with member(url, FIRST) as first:
        await first.look()
        await first.take([2])
        first.endpoints_left.leave(1, EndpointLeft(1, {}))
        first.endpoints_left.leave(2, EndpointLeft(1, {}))
        await first.look()
        await Leases(driver).take(first._membership.number, [1])
        assert first.endpoints_left.of(2) == EndpointLeft(1, {})
        await first.look()
        assert numbers(first) == [1, 2]
        assert first.endpoints_left.of(1) is None


async def test_one_that_cannot_be_declared_dead_at_once_is_so_at_the_next_look(place: Place) -> None:
    await takes(await place.driver(OWNER), OWNER)
    began_s = anyio.current_time()
    async with place.member(NEXT) as other:
        place.refused = 3
        while not other.shards:
            await looks(other, 0.25)
            await other.take([0])
        assert place.refused == 0
        assert anyio.current_time() - began_s <= TAKEN_S_MAX


async def test_where_there_is_no_room_whoever_comes_waits_for_who_is_dead(place: Place) -> None:
    driver = await place.driver(OWNER)
    for _ in range(PROCESSES_MAX):
        await joins(driver, ASKS)
    began_s = anyio.current_time()
    async with place.member(NEXT) as member:
        assert SILENCE_US / SECOND_US <= anyio.current_time() - began_s <= TAKEN_S_MAX
        assert [each.id for each in await present(driver)] == [member.number]


async def test_where_all_live_there_is_no_room(place: Place) -> None:
    driver = await place.driver(ASKS)
    for _ in range(PROCESSES_MAX):
        await joins(driver, ASKS)

    async def beat() -> None:
        while True:
            await driver.execute("UPDATE processes SET beat = beat + 1")
            await anyio.sleep(1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        with pytest.raises(LedgerBusyError, match="64 processes work on this ledger or stand by already"):
            await AsyncExitStack().enter_async_context(place.member(NEXT))
        tasks.cancel_scope.cancel()


async def test_one_whose_row_is_held_keeps_nobody_from_what_another_dead_one_had(place: Place) -> None:
    place.settings = {"lock_timeout": "100"}
    held, dead = await takes(await place.driver(OWNER), OWNER), await joins(await place.driver(THIRD), THIRD)
    stranger = await place.driver(ASKS)
    await stranger.execute("BEGIN")
    await stranger.execute("SELECT 1 FROM processes WHERE id = $1 FOR UPDATE", held.id)
    async with place.member(NEXT) as other:
        await looks(other, TAKEN_S_MAX)
        assert [each.id for each in await present(stranger)] == [held.id, other.number]
        await stranger.execute("ROLLBACK")
        await looks(other, 0.25)
        assert [each.id for each in await present(stranger)] == [other.number]
    assert held.id < dead.id, "the one that cannot be declared dead comes first"


@pytest.mark.slow
async def test_one_that_freezes_while_it_declares_another_dead_holds_up_nobody_for_long(place: Place) -> None:
    """The server ends its transaction: its own beats go on."""
    silent = await takes(await place.driver(OWNER), OWNER)
    freezes = await place.connect(ASKS)(SETTINGS, LineBounds())
    await freezes.execute("BEGIN")
    await freezes.execute("SELECT 1 FROM processes WHERE id = $1 FOR UPDATE", silent.id)
    async with place.member(NEXT) as other:
        with anyio.fail_after(TAKEN_S_MAX):
            while not other.shards:
                await looks(other, 0.25)
                await other.take([0])
