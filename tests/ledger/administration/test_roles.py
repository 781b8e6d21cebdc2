"""Who may do what with a ledger on a server, and what the server says of itself to whom."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest

from orchestrator.api.admin.ledger_admin import ledger_compact
from orchestrator.api.admin.ledger_copy import ledger_copy
from orchestrator.api.admin.ledger_init import ledger_init
from orchestrator.api.inspect.processes import processes
from orchestrator.api.inspect.status import status
from orchestrator.api.messages.abandonment_watch import AbandonmentWatch
from orchestrator.api.outcomes.result_lines import results
from orchestrator.api.outcomes.verify import verify
from orchestrator.api.runs.process_commands import control
from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger, open_ledger, read_ledger
from orchestrator.ledger.copying.ledger_copy import copy_ledger
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.processes import ProcessName
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION
from orchestrator.ledger.sites.sites import site_of
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl, parse_ledger_url
from orchestrator.settings.command_requests import ControlAction, ResultsRequest, VerifyRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.engine.rows import empty_ledger
from tests.factories import S
from tests.ledger.ledgers import a_run, brought_to
from tests.ledger.processes.conftest import FIRST, SECOND
from tests.postgres.databases import Databases, of_role, plain_connections
from tests.postgres.old_ledgers import OLDEST, make_older
from tests.postgres.owners import takes, takes_over

pytestmark = pytest.mark.anyio

BOUNDS = LineBounds()


class Server:
    """A database whose ledger was made by its owner, who is no administrator, and the grants."""

    def __init__(self, url: str, owner: str) -> None:
        self.url, self.owner = url, owner
        self.grants: Mapping[str, Sequence[str]] = {}

    async def execute(self, *statements: str) -> None:
        """As the administrator."""
        connection = await asyncpg.connect(self.url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    def ledger_of(self, user: str) -> LedgerUrl:
        return parse_ledger_url(of_role(self.url, user))

    @asynccontextmanager
    async def role(self, what: str) -> AsyncIterator[LedgerUrl]:
        """The ledger for somebody who was given the role that is for `what`."""
        [role] = [text.split()[2] for text in self.grants[what] if text.startswith("CREATE ROLE")]
        user = f"{role}_user"
        await self.execute(*self.grants[what], f"CREATE ROLE {user} LOGIN IN ROLE {role}")
        try:
            yield self.ledger_of(user)
        finally:
            await self.execute(*(f"DROP OWNED BY {each}; DROP ROLE {each}" for each in (user, role)))

    @asynccontextmanager
    async def member(self, user: LedgerUrl, name: str) -> AsyncIterator[LedgerUrl]:
        """The ledger for somebody else who has the rights of `user`, which may end what that one does."""
        await self.execute(f"CREATE ROLE {name} LOGIN IN ROLE {user.user.removesuffix('_user')}")
        await self.execute(f"GRANT {name} TO {user.user}")
        try:
            yield self.ledger_of(name)
        finally:
            await self.execute(f"DROP ROLE {name}")


@pytest.fixture
def url(durable_databases: Databases) -> Iterator[str]:
    with durable_databases.empty() as url:
        yield url


@pytest.fixture
async def server(url: str) -> AsyncIterator[Server]:
    database = parse_ledger_url(url).database
    server = Server(url, owner := f"{database}_owner")
    await server.execute(f"CREATE ROLE {owner} LOGIN; ALTER DATABASE {database} OWNER TO {owner}")
    try:
        server.grants = (await ledger_init(server.ledger_of(owner))).grants
        yield server
    finally:
        await server.execute(f"REASSIGN OWNED BY {owner} TO orchestrator; DROP OWNED BY {owner}; DROP ROLE {owner}")


@asynccontextmanager
async def at_work(ledger: LedgerAddress) -> AsyncIterator[Ledger]:
    async with open_ledger(ledger, clock=SystemClock()) as opened, anyio.create_task_group() as tasks:
        await tasks.start(opened.writer.serve)
        yield opened
        tasks.cancel_scope.cancel()


async def three_jobs(ledger: Ledger) -> None:
    """A run, of which one has succeeded."""
    await a_run(ledger, 3, name="night")
    await brought_to(ledger, State.SUCCEEDED, SystemClock().now() - 100 * S)


@asynccontextmanager
async def driver_of(ledger: LedgerUrl, process: ProcessName) -> AsyncIterator[Any]:
    """A connection of `process` that has nothing but the rights of its user."""
    settings = {"application_name": f"orchestrator{process.mark}", "lock_timeout": "200"}
    driver = await asyncpg.connect(str(ledger), server_settings=settings)
    try:
        yield driver
    finally:
        driver.terminate()


@pytest.mark.slow
async def test_an_engine_needs_rows_only(server: Server) -> None:
    async with server.role("engine") as engines:
        async with at_work(engines) as ledger:
            await three_jobs(ledger)
            counts = await ledger.runs.counts(run=1)
            assert (counts["queued"], counts["succeeded"]) == (2, 1)
        async with driver_of(engines, FIRST) as engine:
            for statement in (
                "UPDATE alembic_version SET version_num = '1'",
                "CREATE TABLE more (n int)",
                "DROP TABLE jobs",
            ):
                with pytest.raises(asyncpg.InsufficientPrivilegeError):
                    await engine.execute(statement)


@pytest.mark.slow
async def test_an_engine_has_the_ledger_as_any_process_has_it(server: Server) -> None:
    async with server.role("engine") as engines, aclosing(site_of(engines)) as site:
        async with site.holding(now=0, doing="orchestrator serve"), at_work(engines) as ledger:
            assert ledger.ownership is not None
            await three_jobs(ledger)
            found = await processes(engines)
            assert [(each.is_beating, each.has) for each in found.processes] == [(True, "schedules and flows; ep")]
        assert await site.holder() is None


@pytest.mark.parametrize("is_own_role", [True, False])
async def test_an_engine_ends_the_transactions_of_whom_it_takes_over_from(server: Server, is_own_role: bool) -> None:
    async with server.role("engine") as engines, server.member(engines, f"{server.owner}_alice") as alice:
        theirs = engines if is_own_role else alice
        async with driver_of(theirs, FIRST) as stopped, driver_of(engines, SECOND) as successor:
            number = await takes(stopped, FIRST)
            await stopped.execute(f"BEGIN; {number.fence}; INSERT INTO counts (run_id, name, n) VALUES (1, 'a', 1)")
            await takes_over(successor, SECOND)
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
                await stopped.execute("COMMIT")
            assert await successor.fetchval("SELECT count(*) FROM counts") == 0


@pytest.mark.slow
async def test_who_only_reads_sees_all_and_changes_nothing(server: Server) -> None:
    async with at_work(server.ledger_of(server.owner)) as ledger:
        await three_jobs(ledger)
    lines: list[bytes] = []
    async with server.role("reader") as readers:
        [run] = await status(readers)
        assert (run.run, run.jobs["succeeded"]) == ("night", 1)
        assert (await processes(readers)).processes == ()
        assert await results(ResultsRequest(ledger=readers, name="night"), lines.append) == 1
        assert (await verify(VerifyRequest(ledger=readers), lambda _what, _done, _of: None)).ok
        async with read_ledger(readers) as ledger:
            assert await ledger.reports.feed.page(0)
            facts = await ledger.server.facts() if ledger.server is not None else None
        assert facts is not None
        assert facts.role.endswith("_reader_user")
        refused = r"permission denied for table .*; log in as a role that may, or grant this one what it lacks"
        with pytest.raises(StorageError, match=refused):
            await control(readers, "night", ControlAction.PAUSE)
        async with aclosing(site_of(readers)) as site:
            with pytest.raises(StorageError, match=refused):
                async with site.holding(now=0, doing="orchestrator tick"):
                    pass
    assert len(lines) > 0


async def test_who_may_not_retire_a_ledger_is_refused_before_anything_is_copied(server: Server, tmp_path: Path) -> None:
    async with server.role("engine") as engines:
        with pytest.raises(
            UsageError, match=f"belong to {server.owner}, who alone may retire them, as a copy does; give"
        ):
            await ledger_copy(engines, tmp_path / "back.db")
    assert not [each async for each in anyio.Path(tmp_path).iterdir()]


@pytest.mark.slow
async def test_an_owner_makes_the_tables_and_writes_them_anew_and_later_ones_are_there_for_all(server: Server) -> None:
    owners = server.ledger_of(server.owner)
    again = await ledger_init(owners)
    assert (again.found, again.grants) == (SCHEMA_VERSION, server.grants)
    async with (
        server.role("engine") as engines,
        server.role("reader") as readers,
        driver_of(owners, FIRST) as owner,
        driver_of(engines, FIRST) as engine,
        driver_of(readers, FIRST) as reader,
    ):
        await owner.execute("CREATE TABLE later (n bigint GENERATED BY DEFAULT AS IDENTITY, is_so bool)")
        await engine.execute("INSERT INTO later (is_so) VALUES (true)")
        assert await reader.fetchval("SELECT count(*) FROM later") == 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await reader.execute("INSERT INTO later (is_so) VALUES (true)")
        await owner.execute("DROP TABLE later")
    assert (await ledger_compact(owners)).bytes_after > 0


@pytest.mark.slow
async def test_an_owner_copies_a_ledger_there_with_which_engines_go_on(server: Server, tmp_path: Path) -> None:
    path = empty_ledger(tmp_path / "l.db")
    async with at_work(path) as ledger:
        await three_jobs(ledger)

    async def nothing() -> None:
        """Lies beside it."""

    async with aclosing(site_of(path)) as of, aclosing(site_of(server.ledger_of(server.owner))) as to:
        await copy_ledger(of, to, clock=SystemClock(), tell=lambda _done, _total: None, copy_beside=nothing)
    async with server.role("engine") as engines, at_work(engines) as ledger:
        await a_run(ledger, 1, name="day")
        assert await ledger.runs.names() == ["night", "day"]


@pytest.mark.parametrize(("what", "is_warned"), [("reader", True), ("engine", False)])
async def test_a_dashboard_that_can_only_read_says_once_that_it_tells_nobody(
    server: Server, caplog: pytest.LogCaptureFixture, what: str, is_warned: bool
) -> None:
    async with server.role(what) as theirs:
        watch = AbandonmentWatch(path=theirs, connection=ConnectionSettings(), dependencies=Dependencies(environ={}))
        for _ in range(2):
            await watch.look()
    assert len(caplog.messages) == is_warned
    assert all(f"{what}_user may only read this ledger" in each for each in caplog.messages)


@pytest.mark.parametrize("role", ["engine", "reader"])
@pytest.mark.parametrize("version", [OLDEST, "0055"])
async def test_who_may_not_bring_older_tables_up_to_date_is_told_who_may(url: str, role: str, version: str) -> None:
    await make_older(url, version)
    made = parse_ledger_url(url)
    server = Server(url, made.user)
    async with aclosing(site_of(made)) as own:
        server.grants = await own.grants()
        async with server.role(role) as theirs:
            for _ in range(2):
                with pytest.raises(UsageError) as refused:
                    async with read_ledger(theirs):
                        pass
                assert str(refused.value) == (
                    f"{theirs}: an older version of the program made its tables, which belong to {made.user}, who alone"
                    f" may bring them up to date; give the first command of this version as that role, with ledger={made}"
                )
                assert await own.version() == version
            async with aclosing(site_of(theirs)) as site:
                with pytest.raises(UsageError, match="who alone may bring them up to date"):
                    async with site.holding(now=0, doing="orchestrator serve"):
                        pass
            async with own.holding(now=0):
                await own.migrate()
            async with read_ledger(theirs) as ledger:
                assert await ledger.runs.all() == []


async def test_a_server_says_who_keeps_it_from_sweeping_up(server: Server) -> None:
    async with at_work(parse_ledger_url(server.url)) as ledger:
        await a_run(ledger, 3)
        sleeper = await plain_connections(server.url)({"application_name": "a laptop"}, BOUNDS)
        await sleeper.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM jobs")
        for _ in range(3):
            await ledger.runs.heartbeats.beat(ProcessReport())
        found = await ledger.server.facts() if ledger.server is not None else None
        assert found is not None
        assert found.oldest_snapshot is not None
        assert found.oldest_snapshot.holder.startswith(
            f"connection {sleeper.get_server_pid()} of {parse_ledger_url(server.url).user} (a laptop)"
        )
        assert found.oldest_snapshot.transactions >= 3
        await sleeper.close()
        again = await ledger.server.facts() if ledger.server is not None else None
        assert again is not None
        assert again.oldest_snapshot is None or "a laptop" not in again.oldest_snapshot.holder
    assert int(found.version.split(".")[0]) >= 15
    assert found.our_connections >= 3
    assert found.connections > found.our_connections
    [jobs] = [each for each in found.tables if each.table == "jobs"]
    assert jobs.bytes > 0
    assert jobs.index_bytes >= 7 * 8192


async def test_a_schema_of_its_own_is_made_once(url: str) -> None:
    own = parse_ledger_url(f"{url}&schema=night")
    for _ in range(2):
        async with aclosing(site_of(own)) as site:
            await site.make_room()
    administrator = await plain_connections(url)({}, BOUNDS)
    assert await administrator.fetchval("SELECT count(*) FROM pg_namespace WHERE nspname = 'night'") == 1
    await administrator.close()


async def test_a_schema_that_cannot_be_made_is_called_as_people_call_it() -> None:
    site = site_of(parse_ledger_url("postgresql://nobody@127.0.0.1:1/nowhere?schema=night"))
    with pytest.raises(StorageError) as refused:
        await site.make_room()
    assert str(refused.value).startswith("postgresql://nobody@127.0.0.1:1/nowhere?schema=night: ")
    assert "pg_catalog" not in str(refused.value)
