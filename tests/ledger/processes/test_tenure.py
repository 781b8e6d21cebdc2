"""A process owns all of a ledger on a server as long as it beats, and nobody else owns anything of it then."""

from collections.abc import Callable

import anyio
import pytest

from orchestrator.core.ownership.beat_watch import SILENCE_US
from orchestrator.core.ownership.lease import GONE_US, PROCESSES_MAX, TRUST_US
from orchestrator.errors import LedgerBusyError, LedgerUnavailableError
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Processes, ProcessName
from orchestrator.units import SECOND_US
from tests.ledger.processes.place import ASKS, NEXT, OWNER, Place
from tests.postgres.owners import joins, owner_of, present, takes, takes_over

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TRUST_S, SILENCE_S = TRUST_US / SECOND_US, SILENCE_US / SECOND_US
TAKEN_S_MAX = 9.0
"""So soon after its last beat a process counts as gone."""

CONNECTED = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1"


async def until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110  nobody tells of it
        await anyio.sleep(0.1)


async def stopped_owner(place: Place) -> None:
    """A process has the ledger, is connected, and beats no more."""
    await takes(await place.driver(OWNER), OWNER)


async def cut_off_for_good(place: Place) -> None:
    """And the server has noticed: beside others that may take a while."""
    place.cut_off(OWNER)
    server = await place.driver(NEXT)
    while await server.fetchval(CONNECTED, f"orchestrator{OWNER.mark}"):  # noqa: ASYNC110  nobody tells of it
        await anyio.sleep(0.01)


async def test_one_that_lets_go_is_followed_at_once_and_has_left_nothing_under_way(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        await anyio.sleep(30)
    assert not tenure.may_leave()
    with anyio.fail_after(1):
        async with place.tenure(NEXT) as after:
            assert not after.is_successor


async def test_one_that_is_cancelled_lets_go_as_well(place: Place) -> None:
    with anyio.CancelScope() as cancelled:
        async with place.tenure(OWNER):
            cancelled.cancel()
            await anyio.sleep(1)
    assert await Leases(await place.driver(NEXT)).owner() is None


async def test_whoever_comes_beside_it_is_told_who_has_it(place: Place) -> None:
    async with place.tenure(OWNER):
        began_s = anyio.current_time()
        with pytest.raises(LedgerBusyError, match=OWNER.name):
            async with place.tenure(NEXT):
                raise AssertionError("two have it")
        assert anyio.current_time() - began_s < 1


async def test_one_that_has_ended_without_a_word_is_waited_for_until_it_counts_as_gone(place: Place) -> None:
    await stopped_owner(place)
    await cut_off_for_good(place)
    began_s = anyio.current_time()
    async with place.tenure(NEXT) as tenure:
        assert tenure.is_successor
    assert SILENCE_S <= anyio.current_time() - began_s <= TAKEN_S_MAX


async def test_one_that_is_cut_off_for_a_moment_is_found_to_live(place: Place) -> None:
    async with place.tenure(OWNER):
        place.cut_off(OWNER)
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                with pytest.raises(LedgerBusyError):
                    async with place.tenure(NEXT):
                        raise AssertionError("two have it")

            tasks.start_soon(ask)
            await anyio.sleep(2.5)
            place.away.clear()


async def test_one_that_was_deposed_learns_it_and_nothing_leaves_it_any_more(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        other = await place.driver(NEXT)
        successor = await takes_over(other, NEXT)
        await until(lambda: tenure.why_lost is not None)
        assert not tenure.may_leave()
        assert NEXT.name in str(tenure.why_lost)
        await Processes(other).beat(successor)
        await anyio.sleep(5)
        assert not tenure.may_leave()
    assert (await owner_of(other)).id == successor.id, "who was deposed takes nothing with it"


async def test_one_that_reaches_nobody_trusts_itself_for_some_seconds_and_again_once_it_does(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        await anyio.sleep(10)
        place.cut_off(OWNER)
        await anyio.sleep(TRUST_S - 1.5)
        assert tenure.may_leave()
        await anyio.sleep(1.6)
        assert not tenure.may_leave()
        await anyio.sleep(60)
        place.away.clear()
        with anyio.fail_after(2):
            await until(tenure.may_leave)
        assert tenure.why_lost is None


async def test_of_several_who_wait_for_one_that_has_ended_one_takes_it_and_the_others_are_told(place: Place) -> None:
    await stopped_owner(place)
    await cut_off_for_good(place)
    owned, told = list[str](), list[str]()

    async def follow(process: ProcessName) -> None:
        try:
            async with place.tenure(process) as tenure:
                owned.append(process.name)
                await anyio.sleep(20)
                assert tenure.may_leave()
        except LedgerBusyError as error:
            told.append(f"{error}")

    async with anyio.create_task_group() as tasks:
        for number in range(3):
            tasks.start_soon(follow, ProcessName(f"process {number}", f" #{number + 3}"))
    [owner] = owned
    assert len(told) == 2
    assert all(owner in text for text in told)
    assert await present(await place.driver(ASKS)) == []


async def test_a_server_that_nobody_can_reach_is_told_at_once(place: Place) -> None:
    place.away.add(OWNER.mark)
    with pytest.raises(LedgerUnavailableError, match="cannot reach the ledger"):
        async with place.tenure(OWNER):
            raise AssertionError("it has it")


async def test_a_beat_whose_answer_came_late_counts_from_its_beginning(place: Place) -> None:
    async with place.tenure(OWNER) as tenure:
        place.late_s = 2.5
        await anyio.sleep(22)
        place.cut_off(OWNER)
        ends_s = place.begun_s + TRUST_S
        await anyio.sleep(ends_s - 0.1 - anyio.current_time())
        assert tenure.may_leave()
        await anyio.sleep(0.2)
        assert not tenure.may_leave()


async def shards_of(place: Place, process: ProcessName) -> list[int]:
    """Those that `process` has."""
    driver = await place.driver(ASKS)
    [number] = [each.id for each in await present(driver) if each.name == process.name]
    return [lease.shard for lease in (await Leases(driver).sighting()).leases if lease.owner == number]


async def with_endpoints(place: Place, *names: str) -> None:
    driver = await place.driver(ASKS)
    await driver.executemany(
        "INSERT INTO endpoints (service_url, endpoint) VALUES ('u', $1)", [(each,) for each in names]
    )


async def test_whoever_has_the_ledger_has_all_of_its_shards_and_those_to_come(place: Place) -> None:
    await with_endpoints(place, "a", "b")
    async with place.tenure(OWNER):
        await anyio.sleep(1)
        assert await shards_of(place, OWNER) == [0, 1, 2]

        await with_endpoints(place, "c")
        await anyio.sleep(5)

        assert await shards_of(place, OWNER) == [0, 1, 2, 3]


async def test_beside_one_that_has_a_part_of_it_nobody_has_it(place: Place) -> None:
    await with_endpoints(place, "a")
    driver = await place.driver(ASKS)
    part = await joins(driver, ASKS)
    await Leases(driver).sighting()
    await Leases(driver).take(part, [1])
    with pytest.raises(LedgerBusyError, match=ASKS.name):
        async with place.tenure(OWNER):
            raise AssertionError("two have a part of it")

    await Processes(driver).leave(part)

    async with place.tenure(OWNER):
        assert await shards_of(place, OWNER) == [0, 1]


async def test_a_successor_has_all_that_its_predecessor_had_and_knows_that_it_was_left(place: Place) -> None:
    await with_endpoints(place, "a", "b")
    await stopped_owner(place)
    await cut_off_for_good(place)
    async with place.tenure(NEXT) as tenure:
        assert await shards_of(place, NEXT) == [0, 1, 2]
        assert tenure.is_successor
        await anyio.sleep(30)
    place.away.clear()
    async with place.tenure(OWNER) as tenure:
        assert tenure.is_successor, "what the first one has sent may still be under way"
        await anyio.sleep(GONE_US / SECOND_US)
    async with place.tenure(OWNER) as tenure:
        assert not tenure.is_successor


async def test_one_that_ends_without_a_word_is_forgotten_by_the_owner(place: Place) -> None:
    async with place.tenure(OWNER):
        driver = await place.driver(ASKS)
        await joins(driver, NEXT)
        await anyio.sleep(TAKEN_S_MAX)
        assert [each.name for each in await present(driver)] == [OWNER.name]


async def test_one_too_many_is_refused_once_it_is_known_that_all_live(place: Place) -> None:
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
            async with place.tenure(OWNER):
                raise AssertionError("there was no room")
        tasks.cancel_scope.cancel()
    async with place.tenure(OWNER):  # now that they are dead
        pass
