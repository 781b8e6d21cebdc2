"""Who may write beside whom, and that nobody who stands still within a transaction stops the others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import text

from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.database import ClashError, Company
from orchestrator.ledger.postgres.connection import Driver, LineBounds, Settings
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from tests.postgres.databases import plain_connections

pytestmark = pytest.mark.anyio

BOUNDS: Final = LineBounds(granted_s=0.02, still_s=0.1)
NEVER_STILL: Final = BOUNDS._replace(still_s=60.0, granted_s=0.005)
ADD: Final = text(
    "INSERT INTO counts (run_id, name, n) VALUES (1, :name, 1)"
    " ON CONFLICT (run_id, name) DO UPDATE SET n = counts.n + 1"
)
NAMES: Final = text("SELECT name FROM counts ORDER BY name")
N: Final = text("SELECT coalesce(sum(n), 0)::bigint FROM counts")

Open = Callable[..., ServerDatabase]


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Open]:
    """Doors of one process after the other, to the same ledger; a guest's, or those of one that may own it."""
    async with AsyncExitStack() as stack:

        def door(
            *, is_guest: bool = False, bounds: LineBounds = BOUNDS, schema: str = '"$user", public'
        ) -> ServerDatabase:
            async def connect(settings: Settings, bounds: LineBounds) -> Driver:
                return await plain_connections(url)({"search_path": schema, **settings}, bounds)

            database = ServerDatabase("ledger", connect, metadata, bounds=bounds)
            database.is_guest = is_guest
            stack.push_async_callback(database.aclose)
            return database

        yield door


async def add(database: ServerDatabase, company: Company, name: str = "awake") -> None:
    async with database.writing(company) as connection:
        await connection.execute(ADD, {"name": name})


async def may_go_beside(one: ServerDatabase, held: Company, other: ServerDatabase, wanted: Company) -> bool:
    """Whether the `other` one may write, as it wants to, while `one` does."""
    async with one.writing(held):
        try:
            await add(other, wanted)
        except LedgerUnavailableError:
            return False
        return True


@pytest.mark.parametrize(
    ("held", "holds_guest", "wanted", "wants_guest", "goes"),
    [
        (Company.SHARED, False, Company.SHARED, False, True),
        (Company.SHARED, False, Company.ALONE, False, False),
        (Company.ALONE, False, Company.SHARED, False, False),
        (Company.ALONE, False, Company.ALONE, False, False),
        (Company.ALONE, True, Company.SHARED, False, True),
        (Company.SHARED, False, Company.ALONE, True, True),
        (Company.ALONE, True, Company.ALONE, True, False),
        (Company.ALONE, True, Company.ALONE, False, False),
        (Company.ALONE, False, Company.ALONE, True, False),
        (Company.FOR_LONG, False, Company.SHARED, False, False),
        (Company.FOR_LONG, True, Company.SHARED, True, False),
    ],
)
async def test_who_writes_goes_beside_others_as_both_want_it(
    opened: Open, held: Company, holds_guest: bool, wanted: Company, wants_guest: bool, goes: bool
) -> None:
    one, other = opened(is_guest=holds_guest), opened(is_guest=wants_guest, bounds=NEVER_STILL)
    assert await may_go_beside(one, held, other, wanted) is goes


async def test_a_ledger_in_a_schema_whose_name_has_capitals_has_its_own_lock(opened: Open) -> None:
    async with opened().changing() as connection:
        await connection.execute(text('CREATE SCHEMA "Night"'))
    try:
        one, other = (opened(schema='"Night", public', bounds=NEVER_STILL) for _ in range(2))
        assert not await may_go_beside(one, Company.ALONE, other, Company.SHARED)
        assert await may_go_beside(one, Company.ALONE, opened(), Company.ALONE)
    finally:
        async with opened().changing() as connection:
            await connection.execute(text('DROP SCHEMA "Night"'))


async def asleep_meanwhile(database: ServerDatabase, company: Company, act: Callable[[], Awaitable[None]]) -> None:
    """A transaction that has written something, and from which nothing comes while `act` is done. It is ended then."""

    async def stand_still() -> None:
        async with database.writing(company) as connection:
            await connection.execute(ADD, {"name": "asleep"})
            await act()

    with pytest.raises(LedgerUnavailableError, match="connection to its server was lost"):
        await stand_still()


@pytest.mark.parametrize("company", [Company.SHARED, Company.ALONE])
@pytest.mark.parametrize("is_guest", [False, True])
async def test_who_stands_still_within_a_transaction_is_ended_and_none_of_it_is_written(
    opened: Open, company: Company, is_guest: bool
) -> None:
    awake = opened()
    await asleep_meanwhile(opened(is_guest=is_guest), company, lambda: add(awake, Company.ALONE))
    assert await awake.asked(NAMES, None, lambda found: found.scalars().all()) == ["awake"]


async def test_meanwhile_those_who_share_pass(opened: Open) -> None:
    """Whoever wants to be alone stands in line before those that come later, but makes way again and again."""
    alone, sharing = opened(bounds=BOUNDS._replace(still_s=0.25)), opened()
    passed = 0

    async def share(ended: anyio.Event) -> None:
        nonlocal passed
        while not ended.is_set():
            await add(sharing, Company.SHARED)
            await anyio.lowlevel.checkpoint()
            passed += 1

    async def act() -> None:
        ended = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(share, ended)
            await add(alone, Company.ALONE)
            ended.set()

    await asleep_meanwhile(opened(), Company.SHARED, act)
    assert passed > 3


async def test_who_sleeps_with_the_lock_of_a_row_is_ended_too(opened: Open) -> None:
    awake = opened()

    async def again() -> None:
        while True:
            with suppress(ClashError):
                return await add(awake, Company.SHARED, "asleep")

    await asleep_meanwhile(opened(), Company.SHARED, again)
    assert await awake.asked(N, None, lambda found: found.scalar_one()) == 1


async def test_who_is_there_for_long_is_not_ended(opened: Open) -> None:
    copying, other = opened(), opened()
    async with copying.writing(Company.FOR_LONG) as connection:
        await connection.execute(ADD, {"name": "copied"})
        with pytest.raises(LedgerUnavailableError, match="others write to it without an end"):
            await add(other, Company.ALONE)
    assert await other.asked(N, None, lambda found: found.scalar_one()) == 1
