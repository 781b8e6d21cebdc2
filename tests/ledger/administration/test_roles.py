"""Who may do what with a ledger on a server, and what the server says of itself to whom."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator.api.messages.abandonment_watch import AbandonmentWatch
from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger, open_ledger, read_ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.opening import command_ledger
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.sites.sites import site_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl, parse_ledger_url
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.factories import S
from tests.ledger.ledgers import a_run, brought_to
from tests.postgres.databases import Databases, plain_connections

pytestmark = pytest.mark.anyio

BOUNDS = LineBounds()


class Server:
    """A database whose ledger was made by its owner, and the grants."""

    def __init__(self, url: str, grants: Mapping[str, Sequence[str]]) -> None:
        self.url, self.grants = url, grants

    async def execute(self, *statements: str) -> None:
        connection = await asyncpg.connect(self.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    @asynccontextmanager
    async def role(self, what: str) -> AsyncIterator[Any]:
        """A way to connect as somebody who was given the role that is for `what`."""
        [role] = [text.split()[2] for text in self.grants[what] if text.startswith("CREATE ROLE")]
        user = f"{role}_user"
        await self.execute(*self.grants[what], f"CREATE ROLE {user} LOGIN IN ROLE {role}")
        try:
            yield plain_connections(self.url.replace("://orchestrator@", f"://{user}@"))
        finally:
            await self.execute(*(f"DROP OWNED BY {each}; DROP ROLE {each}" for each in (user, role)))


@pytest.fixture
def url(databases: Databases) -> Iterator[LedgerUrl]:
    with databases.empty() as url:
        yield parse_ledger_url(url)


@pytest.fixture
async def server(url: LedgerUrl) -> Server:
    site = site_of(url, connect=plain_connections(str(url)))
    await site.make_room()
    await site.migrate()
    grants = await site.grants()
    await site.aclose()
    return Server(str(url), grants)


@asynccontextmanager
async def at_work(url: LedgerUrl, connect: Any) -> AsyncIterator[Ledger]:
    async with open_ledger(url, clock=SystemClock(), connect=connect) as ledger, anyio.create_task_group() as tasks:
        await tasks.start(ledger.writer.serve)
        yield ledger
        tasks.cancel_scope.cancel()


async def test_an_engine_needs_rows_only(server: Server, url: LedgerUrl) -> None:
    async with server.role("engine") as connect:
        async with at_work(url, connect) as ledger:
            await a_run(ledger, 3)
            await brought_to(ledger, State.SUCCEEDED, SystemClock().now() - 100 * S)
            counts = await ledger.runs.counts(run=1)
            assert (counts["queued"], counts["succeeded"]) == (2, 1)
        engine = await connect({}, BOUNDS)
        for statement in (
            "UPDATE alembic_version SET version_num = '1'",
            "CREATE TABLE more (n int)",
            "DROP TABLE jobs",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await engine.execute(statement)
        await engine.close()


async def test_who_only_reads_sees_all_and_changes_nothing(server: Server, url: LedgerUrl) -> None:
    async with at_work(url, plain_connections(str(url))) as ledger:
        await a_run(ledger, 3)
        await brought_to(ledger, State.SUCCEEDED, SystemClock().now() - 100 * S)
    async with server.role("reader") as connect:
        async with read_ledger(url, connect=connect) as ledger:
            [run] = await ledger.runs.all()
            assert (await ledger.runs.counts(run=run.id))["succeeded"] == 1
            assert await ledger.reports.feed.page(0)
            facts = await ledger.server.facts() if ledger.server is not None else None
        assert facts is not None
        assert facts.role.endswith("_reader_user")
        with pytest.raises(StorageError, match=r"permission denied for table .*; grant the role what it lacks"):
            async with command_ledger(url, clock=SystemClock(), connect=connect) as ledger:
                await ledger.commands.ask(Action.PAUSE, run=run.id)


@pytest.mark.parametrize(("what", "is_warned"), [("reader", True), ("engine", False)])
async def test_a_dashboard_that_can_only_read_says_once_that_it_tells_nobody(
    server: Server, url: LedgerUrl, caplog: pytest.LogCaptureFixture, what: str, is_warned: bool
) -> None:
    async with server.role(what) as connect:
        beside_all = Dependencies(connect=lambda _: connect)
        watch = AbandonmentWatch(path=url, connection=ConnectionSettings(), dependencies=beside_all)
        for _ in range(2):
            await watch.look()
    assert len(caplog.messages) == is_warned
    assert all(f"{what}_user may only read this ledger" in each for each in caplog.messages)


async def test_a_server_says_who_keeps_it_from_sweeping_up(server: Server, url: LedgerUrl) -> None:
    connect = plain_connections(server.url)
    async with at_work(url, connect) as ledger:
        await a_run(ledger, 3)
        sleeper = await connect({"application_name": "a laptop"}, BOUNDS)
        await sleeper.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs")
        for _ in range(3):
            await ledger.runs.heartbeats.beat(ProcessReport())
        found = await ledger.server.facts() if ledger.server is not None else None
        assert found is not None
        assert found.oldest_snapshot is not None
        assert found.oldest_snapshot.holder.startswith(
            f"connection {sleeper.get_server_pid()} of orchestrator (a laptop)"
        )
        assert found.oldest_snapshot.transactions >= 3
        await sleeper.close()
        again = await ledger.server.facts() if ledger.server is not None else None
        assert again is not None
        assert again.oldest_snapshot is None or "a laptop" not in again.oldest_snapshot.holder
    assert int(found.version.split(".")[0]) >= 15
    assert found.our_connections == 0  # by their names, which a test gives none
    assert found.connections >= 3
    [jobs] = [each for each in found.tables if each.table == "jobs"]
    assert jobs.bytes > 0
    assert jobs.index_bytes >= 7 * 8192


async def test_a_schema_of_its_own_is_made_once(url: LedgerUrl, databases: Databases) -> None:
    own = parse_ledger_url(f"{url}&schema=night")
    connect = plain_connections(str(url))
    for _ in range(2):
        site = site_of(own, connect=connect)
        await site.make_room()
        await site.aclose()
    administrator = await connect({}, BOUNDS)
    assert await administrator.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'night'") == 1
    await administrator.close()


async def test_a_schema_that_cannot_be_made_is_called_as_people_call_it() -> None:
    site = site_of(parse_ledger_url("postgresql://nobody@127.0.0.1:1/nowhere?schema=night"))
    with pytest.raises(StorageError) as refused:
        await site.make_room()
    assert str(refused.value).startswith("postgresql://nobody@127.0.0.1:1/nowhere?schema=night: ")
    assert "pg_catalog" not in str(refused.value)
