"""Who may write beside whom, and that nobody who stands still within a transaction stops the others."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Final
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import text

from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.database import ClashError, Company
from orchestrator.ledger.postgres.connection import Driver, LineBounds, Settings, server_driver
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.schema.job_tables import metadata
from tests.ledger.administration.login_roles import NUMBERS, WRITES, a_role
from tests.postgres.databases import plain_connections

pytestmark = pytest.mark.anyio

BOUNDS: Final = LineBounds(granted_s=0.02, still_s=0.1)
NEVER_STILL: Final = BOUNDS._replace(still_s=60.0, granted_s=0.005)
PATIENT: Final = BOUNDS._replace(granted_s=0.2)
HALF_A_MESSAGE: Final = b"Q" + (100).to_bytes(4) + b"SELECT"
HALF_A_STATEMENT: Final = b"P" + (16).to_bytes(4) + b"\0SELECT 1\0\0\0"
"""A whole message, by which a statement is begun; the server waits for the next one and counts no time of it."""

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
            *,
            is_guest: bool = False,
            bounds: LineBounds = BOUNDS,
            schema: str = '"$user", public',
            as_role: str | None = None,
        ) -> ServerDatabase:
            async def connect(settings: Settings, bounds: LineBounds) -> Driver:
                return await plain_connections(as_role or url)({"search_path": schema, **settings}, bounds)

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


async def asleep_meanwhile(
    database: ServerDatabase, company: Company, act: Callable[[], Awaitable[None]], *, last_word: bytes = b""
) -> None:
    """A transaction that has written something, and from which nothing comes after its `last_word` while `act` is done.
    It is ended then.
    """

    async def stand_still() -> None:
        async with database.writing(company) as connection:
            await connection.execute(ADD, {"name": "asleep"})
            server_driver(connection)._transport.write(last_word)
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


@pytest.mark.parametrize("company", [Company.SHARED, Company.ALONE])
@pytest.mark.parametrize(
    ("last_word", "bounds"),
    [
        (b"", BOUNDS._replace(guest_still_s=0.1)),
        (HALF_A_MESSAGE, BOUNDS._replace(guest_still_s=0.1)),
        (HALF_A_STATEMENT, BOUNDS._replace(guest_still_s=0.1, guest_lasts_s=0.3)),
    ],
)
async def test_a_guest_of_another_role_that_stands_still_is_ended_by_the_server(
    opened: Open, url: str, company: Company, last_word: bytes, bounds: LineBounds
) -> None:
    """In the midst of a statement by one of version 17 or newer."""
    async with a_role(url, WRITES, NUMBERS) as theirs, a_role(url, WRITES, NUMBERS) as ours:
        guest, awake = opened(is_guest=True, as_role=theirs, bounds=bounds), opened(as_role=ours, bounds=PATIENT)
        await asleep_meanwhile(guest, company, lambda: add(awake, Company.ALONE), last_word=last_word)
        assert await awake.asked(NAMES, None, lambda found: found.scalars().all()) == ["awake"]


def user_of(url: str) -> str:
    return urlsplit(url).username or ""


MEMBER: Final = "GRANT {theirs} TO {{user}}"
RIGHTS: Final = "GRANT pg_signal_backend, pg_read_all_stats TO {{user}}"


@pytest.mark.parametrize(
    ("granted", "ends"),
    [((MEMBER,), True), ((RIGHTS,), True), ((), False), (("GRANT pg_read_all_stats TO {{user}}",), False)],
)
async def test_who_waits_ends_whom_of_another_role_it_may_and_nobody_else(
    opened: Open, url: str, granted: tuple[str, ...], ends: bool
) -> None:
    async with a_role(url, WRITES, NUMBERS) as theirs:
        more = (each.format(theirs=user_of(theirs)) for each in granted)
        async with a_role(url, WRITES, NUMBERS, *more) as ours:
            asleep, awake = opened(as_role=theirs, bounds=NEVER_STILL), opened(as_role=ours)
            if ends:
                await asleep_meanwhile(asleep, Company.SHARED, lambda: add(awake, Company.ALONE))
            else:
                async with asleep.writing(Company.SHARED):
                    with pytest.raises(LedgerUnavailableError, match="others write to it without an end"):
                        await add(awake, Company.ALONE)


async def test_an_administrator_who_stands_still_keeps_none_of_the_others_from_being_ended(
    opened: Open, url: str
) -> None:
    """A server lets nobody but an administrator end one, whatever else was granted."""
    async with a_role(url, WRITES, NUMBERS, RIGHTS.format()) as ours:
        administrator, asleep, awake = opened(), opened(as_role=ours, bounds=NEVER_STILL), opened(as_role=ours)

        async def wait() -> None:
            with pytest.raises(LedgerUnavailableError, match="others write to it without an end"):
                await add(awake, Company.ALONE)

        async with administrator.writing(Company.SHARED):
            await asleep_meanwhile(asleep, Company.SHARED, wait)


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
