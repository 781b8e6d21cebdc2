"""A line to the server that is cut, dead or refused: what is waited for has an end, is found out, and goes on."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import asyncpg
import pytest
from sqlalchemy import Result, text

from orchestrator.clock import SystemClock
from orchestrator.errors import LedgerUnavailableError, LostCommitsError, StorageError
from orchestrator.ledger.ledger import Ledger
from orchestrator.ledger.postgres.connect_errors import cannot_connect, is_next_asked
from orchestrator.ledger.postgres.connection import Driver, LineBounds, Settings, server_driver
from orchestrator.ledger.postgres.database import ServerDatabase
from orchestrator.ledger.postgres.identity.ledger_identity import LedgerIdentity
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.ledger.transactions.patience import Trouble
from orchestrator.ledger.transactions.repository import Access, Repository, asked_again
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.ledger.postgres.conftest import OpenDatabase
from tests.postgres.databases import plain_connections
from tests.postgres.interrupted_commits import FATES, Judged, interrupted
from tests.postgres.proxy import AtCommit, Proxy, proxied

pytestmark = pytest.mark.anyio

# Little, and yet more than a busy machine takes to answer.
BOUNDS = LineBounds(connected_s=2.0, answered_s=1.0, found_s=1.0, undone_s=0.2)
ADD = text("INSERT INTO counts (run_id, name, n) VALUES (1, :name, 1)")
NAMES = text("SELECT name FROM counts ORDER BY name")
PID = text("SELECT pg_backend_pid()")
CLASH = text("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")
ENDED = text("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid")


def adding(name: str) -> Callable[[Transaction], Awaitable[None]]:
    async def block(transaction: Transaction) -> None:
        await transaction.connection.execute(ADD, {"name": name})

    return block


async def names(database: ServerDatabase) -> list[str]:
    return await database.asked(NAMES, None, lambda found: list(found.scalars()))


@asynccontextmanager
async def behind(proxy: Proxy) -> AsyncIterator[ServerDatabase]:
    """Doors to a ledger behind `proxy`, with little time for an answer."""
    database = ServerDatabase("ledger", plain_connections(proxy.url), metadata, bounds=BOUNDS)
    yield database
    await database.aclose()


class _Site(ServerSite):
    """That of a ledger whose `database` is open."""

    def __init__(self, database: ServerDatabase) -> None:
        super().__init__(parse_ledger_url("postgresql://here/d"), connect=plain_connections(""))
        self._database = database


@asynccontextmanager
async def at_work(database: ServerDatabase, seconds: float = math.inf) -> AsyncIterator[Ledger]:
    """A ledger whose writer is at work, and which is waited for."""
    ledger = Ledger(_Site(database), SystemClock())
    ledger.patience.seconds = seconds
    async with anyio.create_task_group() as tasks:
        await tasks.start(ledger.writer.serve)
        yield ledger
        tasks.cancel_scope.cancel()


@pytest.mark.slow
async def test_who_stops_gives_up_soon_a_server_that_says_nothing_any_more(url: str) -> None:
    tries_again = anyio.Event()

    async def connect(settings: Settings, bounds: LineBounds) -> Driver:
        if proxy.is_swallowing:
            tries_again.set()
        return await plain_connections(proxy.url)(settings, bounds)

    async def stop(ledger: Ledger) -> None:
        await tries_again.wait()
        ledger.patience.hurry()

    async with proxied(url) as proxy:
        patient = LineBounds(connected_s=60.0, answered_s=0.5, found_s=0.5)
        database = ServerDatabase("ledger", connect, metadata, bounds=patient)
        async with at_work(database) as ledger:
            await ledger.writer.run(adding("a"))
            proxy.is_swallowing = True
            with anyio.fail_after(10.0):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(stop, ledger)
                    with pytest.raises(LedgerUnavailableError, match="the connection to its server was lost"):
                        await ledger.writer.run(adding("b"))
        proxy.is_swallowing = False
        await database.aclose()


@pytest.mark.slow
async def test_of_interrupted_commits_none_is_taken_for_what_it_is_not(url: str) -> None:
    assert await interrupted(url, 2 * len(FATES)) == Judged(2 * len(FATES), 0, 0)


@pytest.mark.parametrize("fate", [AtCommit.UNANSWERED, AtCommit.LATE, AtCommit.LOST])
async def test_who_does_not_wait_for_what_is_in_doubt_finds_it_out_before_writing_again(
    url: str, fate: AtCommit
) -> None:
    async with proxied(url, (fate,)) as proxy, behind(proxy) as database:
        with pytest.raises(LedgerUnavailableError):
            async with database.writing() as connection:
                await connection.execute(ADD, {"name": "a"})
        async with database.writing() as connection:
            found = (await connection.execute(NAMES)).scalars().all()
            await connection.execute(ADD, {"name": "b"})
        assert await names(database) == [*found, "b"]
        assert found == ([] if fate is AtCommit.LOST else ["a"]) or fate is AtCommit.LATE


async def test_while_the_database_is_away_all_wait_are_told_once_and_go_on_when_it_is_back(url: str) -> None:
    told: list[Trouble | None] = []
    async with proxied(url) as proxy, behind(proxy) as database, at_work(database) as ledger:
        ledger.patience.subscribe(told.append)
        await ledger.writer.run(adding("a"))
        proxy.refuse()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ledger.writer.run, adding("b"))
            for ask in (ledger.reports.feed.end, ledger.reports.overview, ledger.commits_of_others):
                tasks.start_soon(ask)
            while not told:
                await anyio.lowlevel.checkpoint()
            await proxy.listen()
        assert await names(database) == ["a", "b"]
        assert [trouble is None for trouble in told] == [False, True]


@pytest.mark.parametrize("is_reset", [False, True])
async def test_a_view_that_was_cut_is_taken_anew(url: str, is_reset: bool) -> None:
    async with proxied(url) as proxy, behind(proxy) as database, at_work(database) as ledger:
        seen: list[int] = []

        class Views(Repository):
            @asked_again
            async def seen(self) -> int:
                async with self._access.reading() as view:
                    seen.append((await view.execute(PID)).scalar_one())
                    if len(seen) == 1:
                        proxy.cut(reset=is_reset)
                    return int((await view.execute(PID)).scalar_one())

        assert await Views(Access(database, ledger.writer, SystemClock())).seen() == seen[-1]
        assert len(seen) == len(set(seen)) == 2


@pytest.mark.slow
async def test_on_a_line_that_is_dead_everything_ends_also_the_closing(url: str) -> None:
    async with proxied(url) as proxy:
        database = ServerDatabase("ledger", plain_connections(proxy.url), metadata, bounds=BOUNDS)
        async with database.writing() as connection:
            await connection.execute(ADD, {"name": "a"})
        assert await names(database) == ["a"]
        proxy.is_swallowing = True
        with pytest.raises(LedgerUnavailableError, match="the connection to its server was lost"):
            await names(database)
        with pytest.raises(LedgerUnavailableError, match=r"server was lost|does not answer"):
            async with database.writing():
                pass
        await database.aclose()


async def test_who_has_little_time_waits_no_longer_for_a_line_that_is_dead(url: str) -> None:
    async with proxied(url) as proxy:
        bounds = LineBounds(undone_s=0.05)  # and else for as long as anybody
        database = ServerDatabase("ledger", plain_connections(proxy.url), metadata, patience_s=0.1, bounds=bounds)
        assert await names(database) == []
        proxy.is_swallowing = True
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError):
                await names(database)
        await database.aclose()


@pytest.mark.slow
async def test_what_takes_long_by_its_nature_is_not_taken_for_a_dead_line(url: str, connected: OpenDatabase) -> None:
    async with (
        proxied(url) as proxy,
        behind(proxy) as database,
        anyio.create_task_group() as tasks,
        connected().changing() as other,
    ):
        await other.execute(text("LOCK TABLE counts"))
        tasks.start_soon(database.compact)
        await other.execute(text(f"SELECT pg_sleep({3 * BOUNDS.answered_s})"))


async def test_what_is_only_late_is_waited_for(url: str) -> None:
    async with proxied(url) as proxy, behind(proxy) as database:
        await names(database)
        proxy.goes_on = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(names, database)
            await anyio.lowlevel.checkpoint()
            proxy.goes_on.set()
        assert await names(database) == []


async def test_while_one_tries_to_reach_the_server_the_others_are_told_at_once(url: str) -> None:
    async with proxied(url) as proxy, behind(proxy) as database:
        proxy.is_swallowing = True
        with pytest.raises(LedgerUnavailableError):
            await names(database)
        tried = proxy.connections

        async def ask() -> None:
            with pytest.raises(LedgerUnavailableError):
                await names(database)

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(ask)
        assert proxy.connections == tried + 1


async def test_whose_patience_is_over_is_told_and_later_writes_are_written(url: str) -> None:
    async with proxied(url) as proxy, behind(proxy) as database, at_work(database) as ledger:
        await ledger.writer.run(adding("a"))
        proxy.refuse()
        ledger.patience.seconds = 0.3
        with pytest.raises(StorageError, match="cannot reach the ledger"):
            await ledger.writer.run(adding("b"))
        await proxy.listen()
        ledger.patience.seconds = math.inf
        await ledger.writer.run(adding("c"))
        assert await names(database) == ["a", "c"]


async def test_what_met_others_is_tried_again_at_once_and_not_for_ever(url: str, connected: OpenDatabase) -> None:
    tried = 0

    async def block(transaction: Transaction) -> int:
        nonlocal tried
        tried += 1
        if tried <= clashes:
            await transaction.connection.execute(CLASH)
        return tried

    async with at_work(connected(), 0.0) as ledger:
        clashes = 5
        assert await ledger.writer.run(block) == 6
        tried, clashes = 0, 6
        with pytest.raises(StorageError, match="others wrote at the same time"):
            await ledger.writer.run(block)


@pytest.mark.parametrize(
    "left", ["UPDATE writers SET seq = seq - 1 WHERE id <> 0", "DELETE FROM writers WHERE id <> 0"]
)
async def test_a_server_that_lacks_what_it_had_confirmed_ends_the_work(
    url: str, connected: OpenDatabase, left: str
) -> None:
    restored = connected()
    async with restored.changing():
        pass
    async with at_work(connected()) as ledger:
        await ledger.writer.run(adding("a"))
        await ledger.writer.run(adding("b"))
        async with restored.changing() as connection:
            await connection.execute(text(left))
        for name in "cd":
            with pytest.raises(LostCommitsError, match="has lost what it had confirmed"):
                await ledger.writer.run(adding(name))
        assert await names(restored) == ["a", "b"]
        assert await LedgerIdentity(restored).accept_loss()


async def test_who_ends_tells_the_others_what_the_server_has_lost(url: str, connected: OpenDatabase) -> None:
    restored, database = connected(), connected()
    async with at_work(database) as ledger:
        await ledger.writer.run(adding("a"))
        async with restored.changing() as connection:
            await connection.execute(text("UPDATE writers SET seq = seq - 1 WHERE id <> 0"))
    await database.aclose()
    assert await LedgerIdentity(restored).accept_loss()


@pytest.mark.slow
async def test_what_a_dead_line_has_left_at_the_server_holds_nobody_up(url: str, connected: OpenDatabase) -> None:
    """Else the ledger's lock would be held until the server's system finds out that nobody is there, minutes later."""
    async with proxied(url) as proxy, behind(proxy) as database:
        left: list[int] = []

        async def add() -> None:
            async with database.writing() as connection:
                left.append(server_driver(connection).get_server_pid())
                proxy.is_swallowing = True
                await connection.execute(ADD, {"name": "a"})

        with pytest.raises(LedgerUnavailableError):
            await add()
        proxy.is_swallowing = False
        began_s = anyio.current_time()
        async with database.writing() as connection:
            await connection.execute(ADD, {"name": "b"})
        assert anyio.current_time() - began_s < BOUNDS.still_s, "whoever waits ends it, too, but later"
        assert await names(database) == ["b"]
        assert await connected().asked(ENDED, {"pid": left[0]}, Result.all) == []


async def test_who_has_written_nothing_notices_that_one_writes_after_another_has_left(connected: OpenDatabase) -> None:
    looking, first, second = connected(), connected(), connected()
    async with first.writing():
        pass
    before = await looking.commits_of_others()
    await first.aclose()
    async with second.writing():
        pass
    assert await looking.commits_of_others() != before


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (asyncpg.TargetServerAttributeNotMatched("none of the hosts match"), LedgerUnavailableError),
        (asyncpg.CannotConnectNowError("the database system is starting up"), LedgerUnavailableError),
        (asyncpg.InvalidPasswordError("password authentication failed"), StorageError),
    ],
)
def test_what_may_pass_is_waited_for_and_the_rest_is_not(error: Exception, kind: type[StorageError]) -> None:
    url = parse_ledger_url("postgresql://me@db/ledger")
    assert type(cannot_connect(url, {url.hosts[0]: error})) is kind


def test_hosts_that_cannot_be_written_are_passed_over_and_all_are_named() -> None:
    url = parse_ledger_url("postgresql://me@one,two/ledger")
    error = asyncpg.TargetServerAttributeNotMatched("none of the hosts match")
    assert is_next_asked(error)
    told = cannot_connect(url, dict.fromkeys(url.hosts, error)).message
    assert f"{url}: cannot reach the ledger (one: it cannot be written; two: it cannot be written); it can only" in told
