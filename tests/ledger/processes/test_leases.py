"""Which process owns which shard of a ledger on a server: one at a time, whoever bids, and whoever is asked to gives."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from orchestrator.core.ownership.shard_bids import KEEPERS, Pair
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.postgres.connection import LineBounds, Settings
from orchestrator.ledger.processes.leases import LeaseRow, Leases, TakenShard
from orchestrator.ledger.processes.processes import Processes, ProcessKind, ProcessNumber
from orchestrator.ledger.processes.tenure import tenure_of
from tests.ledger.processes.conftest import FIRST, SECOND, THIRD, Connect
from tests.postgres.databases import plain_connections
from tests.postgres.interleaving import WAITS_FOR_LOCK
from tests.postgres.owners import joins, present, takes, takes_over

pytestmark = pytest.mark.anyio

ENDPOINTS = (
    "INSERT INTO endpoints (service_url, endpoint, shard_id) VALUES ('u', 'a', NULL), ('u', 'b', NULL), ('u', 'c', 1)"
)


async def leases_with_endpoints(driver: Any) -> Leases:
    """Those of a ledger with endpoint 1, which 3 is used together with, and 2."""
    await driver.execute(ENDPOINTS)
    return Leases(driver)


async def waits_for_lock(driver: Any, *others: Any) -> None:
    """Returns once one of the `others` waits for a lock."""
    while not await driver.fetchval(WAITS_FOR_LOCK, [each.get_server_pid() for each in others]):
        await anyio.lowlevel.checkpoint()


async def by_shard(leases: Leases) -> dict[int, LeaseRow]:
    return {lease.shard: lease for lease in (await leases.sighting()).leases}


async def test_each_endpoint_is_a_shard_of_its_own_until_it_is_used_with_another_and_one_is_the_keepers(
    connect: Connect,
) -> None:
    driver = await connect(FIRST.mark)
    assert [lease.shard for lease in (await Leases(driver).sighting()).leases] == [KEEPERS]

    leases = await leases_with_endpoints(driver)

    assert [(lease.shard, lease.owner, lease.epoch) for lease in (await leases.sighting()).leases] == [
        (0, None, 0),
        (1, None, 0),
        (2, None, 0),
    ]


async def test_whoever_takes_a_shard_has_it_and_another_one_may_have_another(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    leases = await leases_with_endpoints(driver)
    first, second = [await joins(driver, each) for each in (FIRST, SECOND)]
    await leases.sighting()

    assert await leases.take(first, [1, KEEPERS]) == [
        TakenShard(0, 1, was_left=False),
        TakenShard(1, 1, was_left=False, endpoints=(1, 3)),
    ]
    assert await leases.take(second, [0, 1, 2]) == [TakenShard(2, 1, was_left=False, endpoints=(2,))]

    assert {shard: lease.owner for shard, lease in (await by_shard(leases)).items()} == {
        0: first.id,
        1: first.id,
        2: second.id,
    }
    owner = await leases.owner()
    assert owner is not None
    assert (owner.name, owner.is_connected) == (FIRST.name, True)


async def test_of_many_who_take_at_once_one_gets_all_of_it(connect: Connect) -> None:
    drivers = [await connect(FIRST.mark) for _ in range(6)]
    await (await leases_with_endpoints(drivers[0])).sighting()
    got: list[int] = []

    async def take(driver: Any, number: ProcessNumber) -> None:
        got.append(len(await Leases(driver).take(number, [2, 0, 1])))

    numbers = [await joins(driver, FIRST) for driver in drivers]
    async with anyio.create_task_group() as tasks:
        for driver, number in zip(drivers, numbers, strict=True):
            tasks.start_soon(take, driver, number)
    assert sorted(got) == [0] * 5 + [3]


async def test_one_that_is_let_go_of_is_anybodys_under_another_epoch_and_a_late_word_takes_nothing(
    connect: Connect,
) -> None:
    driver = await connect(FIRST.mark)
    first, leases = await joins(driver, FIRST), await leases_with_endpoints(driver)
    await leases.sighting()
    before, kept = await leases.take(first, [1, 2])

    assert await leases.give(first, before, is_settled=True)
    [after] = await leases.take(first, [1, 2])

    assert after == TakenShard(1, 2, was_left=False, endpoints=(1, 3))
    assert not await leases.give(first, before, is_settled=True), "once more, late"
    assert {lease.owner for shard, lease in (await by_shard(leases)).items() if shard in {1, kept.shard}} == {first.id}


async def test_who_leaves_lets_go_of_all(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    await (leases := await leases_with_endpoints(driver)).sighting()
    number = await takes(driver, FIRST)

    await Processes(driver).leave(number)

    assert {lease.owner for lease in (await leases.sighting()).leases} == {None}
    after = await takes(driver, SECOND)
    await Processes(driver).leave(number)  # once more, late: it takes nothing from its successor
    assert {lease.owner for lease in (await leases.sighting()).leases} == {after.id}


async def test_what_a_dead_one_has_left_is_told_until_nothing_of_it_can_be_under_way(connect: Connect) -> None:
    driver, other = await connect(FIRST.mark), await connect(SECOND.mark)
    await (await leases_with_endpoints(driver)).sighting()
    await takes(driver, FIRST)
    leases, number = Leases(other), await takes_over(other, SECOND)

    assert {lease.left_at is None for lease in (await leases.sighting()).leases} == {False}
    keepers, one, two = [lease.as_taken for lease in (await leases.sighting()).leases]
    assert one.was_left
    await leases.give(number, one, is_settled=False)
    await leases.give(number, two, is_settled=True)
    assert await leases.take(number, [1, 2]) == [
        TakenShard(1, 3, was_left=True, endpoints=(1, 3)),
        TakenShard(2, 3, was_left=False, endpoints=(2,)),
    ]
    await Processes(other).leave(number, settled=[keepers.shard])
    assert {shard: lease.left_at is None for shard, lease in (await by_shard(leases)).items()} == {
        0: True,
        1: False,
        2: True,
    }


async def test_one_that_is_wanted_goes_to_who_asked_first_and_to_anybody_once_that_has_ended(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    leases = await leases_with_endpoints(driver)
    await leases.sighting()
    owner, asking, late = [await joins(driver, each) for each in (FIRST, SECOND, THIRD)]
    assert not await leases.want(asking, 1), "nobody has it: it need not be asked for"
    [taken] = await leases.take(owner, [1])

    assert await leases.want(asking, 1)
    assert await leases.want(asking, 1), "again, as who does not know whether it was heard"
    assert not await leases.want(late, 1)
    assert not await leases.want(owner, 1)
    assert (await by_shard(leases))[1].wanted_by == asking.id

    await leases.give(owner, taken, is_settled=True)
    assert await leases.take(owner, [1]) == await leases.take(late, [1]) == []
    await Processes(driver).leave(asking)
    assert [each.shard for each in await leases.take(late, [1])] == [1]


async def test_who_asked_for_one_gets_it_and_wants_it_no_more(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    leases = await leases_with_endpoints(driver)
    await leases.sighting()
    owner, asking = [await joins(driver, each) for each in (FIRST, SECOND)]
    [taken] = await leases.take(owner, [1])
    await leases.want(asking, 1)
    await leases.give(owner, taken, is_settled=True)

    assert [each.shard for each in await leases.take(asking, [1])] == [1]

    assert (await by_shard(leases))[1].wanted_by is None


A_RUN_OF_TWO = """
INSERT INTO runs (name, endpoint_id, source, settings, created_at) VALUES ('r', 2, '-', '', 0);
INSERT INTO run_endpoints (run_id, endpoint_id) VALUES (1, 1)
"""


async def test_shards_that_a_run_uses_together_are_told_and_become_one_once_one_process_has_both(
    connect: Connect,
) -> None:
    driver = await connect(FIRST.mark)
    leases = await leases_with_endpoints(driver)
    await leases.sighting()
    assert (await leases.needs()).pairs == []
    await driver.execute(A_RUN_OF_TWO)
    [pair] = (await leases.needs()).pairs
    assert pair == Pair(low=1, high=2)
    first, second = [await joins(driver, each) for each in (FIRST, SECOND)]
    await leases.take(first, [1])
    await leases.take(second, [2])
    assert not await leases.merge(first, pair)
    assert [lease.shard for lease in (await leases.sighting()).leases] == [0, 1, 2]

    await Processes(driver).leave(second)
    await leases.take(first, [2])
    assert await leases.merge(first, pair)

    assert [(lease.shard, lease.owner) for lease in (await leases.sighting()).leases] == [(0, None), (1, first.id)]
    assert (await leases.needs()).pairs == []
    assert not await leases.merge(first, pair), "once more"


async def test_of_shards_that_become_one_it_stays_known_that_an_owner_of_either_has_died(connect: Connect) -> None:
    driver, other = await connect(FIRST.mark), await connect(SECOND.mark)
    leases = await leases_with_endpoints(driver)
    await leases.sighting()
    dead, number = await joins(driver, FIRST), await joins(other, SECOND)
    await leases.take(dead, [2])
    [process] = [each for each in await present(other) if each.id == dead.id]
    assert await Processes(other).declare_dead(process)
    leases = Leases(other)
    await leases.take(number, [1, 2])
    assert [lease.left_at is None for lease in (await leases.sighting()).leases] == [True, True, False]

    assert await leases.merge(number, Pair(1, 2))

    assert [lease.left_at is None for lease in (await leases.sighting()).leases] == [True, False]


async def test_while_one_has_the_whole_ledger_nobody_else_takes_what_is_new(connect: Connect) -> None:
    driver = await connect(FIRST.mark)
    leases = await leases_with_endpoints(driver)
    await leases.sighting()
    alone, other = await Processes(driver).join(FIRST, ProcessKind.ALONE), await joins(driver, SECOND)
    assert alone is not None
    assert [each.shard for each in await leases.take(other, [1])] == [1], "it has nothing yet"

    await leases.take(alone, [KEEPERS])

    assert await leases.take(other, [2]) == []
    assert [each.shard for each in await leases.take(alone, [2])] == [2]
    await Processes(driver).leave(alone)
    assert [each.shard for each in await leases.take(other, [0, 2])] == [0, 2]


async def test_whoever_looks_first_at_a_new_ledger_waits_for_another_one_that_does(connect: Connect) -> None:
    driver, other = await connect(FIRST.mark), await connect(SECOND.mark)
    found: list[int] = []

    async def look() -> None:
        found.extend(lease.shard for lease in (await Leases(other).sighting()).leases)

    first = driver.transaction()
    await first.start()
    await Leases(driver).sighting()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(look)
        await waits_for_lock(driver, other)
        await first.commit()
    assert found == [KEEPERS]


async def test_one_that_takes_the_whole_ledger_as_another_one_takes_a_part_has_nothing(
    url: str, connect: Connect
) -> None:
    """The other one had looked before: it finds one shard taken, and takes the next one all the same."""
    driver, other = await connect(THIRD.mark), await connect(SECOND.mark)
    await (await leases_with_endpoints(driver)).sighting()
    sharer = await joins(other, SECOND)
    got: list[TakenShard] = []
    has_taken = anyio.Event()

    async def take() -> None:
        async with other.transaction():
            got.extend(await Leases(other).take(sharer, [KEEPERS, 1]))
            has_taken.set()
            await waits_for_lock(driver, *owners)

    async with anyio.create_task_group() as tasks:

        async def slow(settings: Settings, bounds: LineBounds) -> Any:
            owners.append(await plain_connections(url)(settings, bounds))
            return SlowCommit(owners[-1], before_commit, has_taken.wait)

        async def before_commit() -> None:
            tasks.start_soon(take)
            await waits_for_lock(driver, other)

        owners: list[Any] = []
        with pytest.raises(LedgerBusyError, match=SECOND.name):
            async with tenure_of("ledger", slow, FIRST):
                raise AssertionError("two have a part of it")
    assert [each.shard for each in got] == [1]
    assert {shard: lease.owner for shard, lease in (await by_shard(Leases(driver))).items()} == {
        0: None,
        1: sharer.id,
        2: None,
    }


class SlowCommit:
    """A connection that calls `before` when it has first taken something, commits that, and calls `after`."""

    def __init__(
        self, driver: Any, before: Callable[[], Awaitable[None]], after: Callable[[], Awaitable[None]]
    ) -> None:
        self._driver = driver
        self._before = before
        self._after = after
        self._has_taken = False

    async def fetch(self, statement: str, *given: Any) -> Any:
        if self._has_taken or "UPDATE leases SET owner = me.id" not in statement:
            return await self._driver.fetch(statement, *given)
        self._has_taken = True
        async with self._driver.transaction():
            found = await self._driver.fetch(statement, *given)
            await self._before()
        await self._after()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)
