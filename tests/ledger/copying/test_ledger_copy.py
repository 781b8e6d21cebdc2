"""A ledger goes to another place, whichever database is there, whole and once; where it fails, it has not gone."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import IntakeBusyError, LedgerBusyError, LedgerRetiredError, StorageError, UsageError
from orchestrator.ledger import Ledger, command_ledger, open_ledger, read_ledger
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.copying.ledger_copy import CopiedRows, CopyBeside, Tell, copy_ledger
from orchestrator.ledger.database import Company
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.runs.heartbeats import ProcessReport
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.schema.retirement import retire
from orchestrator.ledger.sites.site import LedgerSite
from orchestrator.ledger.sites.sites import site_of
from orchestrator.ledger.table_scans import PAGE_ROWS, TableScan
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl, parse_ledger_url
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE
from tests.factories import S, a_row
from tests.ledger.ledgers import a_run, brought_to
from tests.postgres.databases import Databases, plain_connections

pytestmark = pytest.mark.anyio

JOBS = 7
ENDPOINT = {"service_url": "u", "endpoint": "e"}
LONG_WAITED = "SELECT count(*) FROM pg_locks WHERE waitstart < clock_timestamp() - interval '0.6 s'"
"""Whether somebody waits for a lock for longer than for that of the ledger."""

LARGE = 5_000_000
"""Bytes of an input: a few of such make a page."""


@pytest.fixture
def server(databases: Databases) -> Iterator[LedgerUrl]:
    """A database without a ledger."""
    with databases.empty() as url:
        yield parse_ledger_url(url)


OTHER_WAYS = [pytest.param(way, marks=pytest.mark.slow) for way in ("server-file", "file-file")]


@pytest.fixture(params=["file-server", *OTHER_WAYS])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[LedgerAddress, LedgerAddress]:
    """From where to where."""
    kinds = request.param.split("-")
    of, to = (
        request.getfixturevalue("server") if kind == "server" else tmp_path / f"{n}.db" for n, kind in enumerate(kinds)
    )
    return of, to


def way_to(address: LedgerAddress) -> Any:
    """How a test connects to it."""
    return plain_connections(str(address)) if isinstance(address, LedgerUrl) else None


async def driver_of(address: LedgerUrl) -> Any:
    """A connection of somebody's."""
    return await plain_connections(str(address))({}, LineBounds())


@asynccontextmanager
async def sites(*addresses: LedgerAddress) -> AsyncIterator[list[LedgerSite]]:
    found = [site_of(address, connect=way_to(address)) for address in addresses]
    try:
        yield found
    finally:
        for site in found:
            await site.aclose()


async def copied(
    of: LedgerAddress,
    to: LedgerAddress,
    tell: Tell = lambda _done, _total: None,
    copy_beside: CopyBeside = anyio.lowlevel.checkpoint,
) -> CopiedRows:
    async with sites(of, to) as (source, target):
        return await copy_ledger(source, target, clock=SystemClock(), tell=tell, copy_beside=copy_beside)


@asynccontextmanager
async def at_work(address: LedgerAddress) -> AsyncIterator[Ledger]:
    async with (
        open_ledger(address, clock=SystemClock(), connect=way_to(address)) as ledger,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(ledger.writer.serve)
        yield ledger
        tasks.cancel_scope.cancel()


async def made(address: LedgerAddress, rows: int = JOBS) -> None:
    """A ledger with a run whose jobs are in several states, and numbers of a run that was removed."""
    async with at_work(address) as ledger:
        now = SystemClock().now()
        await a_run(ledger, rows)
        for job, state in enumerate((State.SUCCEEDED, State.FAILED, State.OUTSTANDING), start=1):
            await brought_to(ledger, state, now - job * 100 * S, job=job)
        gone = await ledger.runs.create(name="gone", service_url="u", endpoint="e", source="-", settings=RunSettings())
        await ledger.runs.intakes.start(gone)
        await ledger.runs.intakes.clear("gone")


async def contents(address: LedgerAddress) -> dict[str, list[Any]]:
    """All rows of all tables."""
    async with sites(address) as (site,), site.database.reading() as view:
        return {table.name: await rows_in(view, TableScan(table)) for table in metadata.sorted_tables}


async def rows_in(view: AsyncConnection, scan: TableScan) -> list[Any]:
    return [row async for page in scan.pages(view) for row in page]


async def test_all_that_it_holds_is_there_afterwards_and_it_says_where(
    places: tuple[LedgerAddress, LedgerAddress],
) -> None:
    of, to = places
    await made(of)
    before, told = await contents(of), list[tuple[int, int]]()
    found = await copied(of, to, lambda *numbers: told.append(numbers))
    assert await contents(to) == before
    assert found.rows == {table: len(rows) for table, rows in before.items()}
    assert found.rows["jobs"] == JOBS
    assert found.rows["events"] > 5
    assert told[-1] == (2 * sum(found.rows.values()),) * 2
    for opening in (open_ledger, read_ledger, command_ledger):
        with pytest.raises(LedgerRetiredError) as refused:
            async with opening(of, clock=SystemClock(), connect=way_to(of)):
                pass
        assert str(refused.value).startswith(f"{of}: this ledger was copied to {to}, and goes on there")


@pytest.mark.slow
async def test_every_machine_has_to_have_the_webhook_key_of_what_came(tmp_path: Path, server: LedgerUrl) -> None:
    of = tmp_path / "of.db"
    await made(of)
    async with sites(of, server) as (source, target):
        key = await source.webhook_key({})
        await copied(of, server)
        with pytest.raises(UsageError, match="signed by another key than this machine has"):
            await target.webhook_key({WEBHOOK_KEY_VARIABLE: "0a" * KEY_BYTES})
        assert await target.webhook_key({WEBHOOK_KEY_VARIABLE: key.hex()}) == key


@pytest.mark.slow
async def test_it_goes_on_where_it_is_and_no_number_comes_again(places: tuple[LedgerAddress, LedgerAddress]) -> None:
    of, to = places
    await made(of)
    await copied(of, to)
    async with at_work(to) as ledger:
        assert (await a_run(ledger, 3, name="later")).id == 3
        assert await ledger.reports.audit.damage() == []
        assert (await ledger.runs.counts(run=1))["queued"] == JOBS - 3


@pytest.mark.slow
async def test_rows_are_taken_some_at_a_time_whatever_they_hold(places: tuple[LedgerAddress, LedgerAddress]) -> None:
    of, to = places
    async with at_work(of) as ledger:
        await a_run(ledger, [a_row(n, payload=Random(n).randbytes(LARGE if n < 3 else 9)) for n in range(20)])
    async with sites(of) as (site,), site.database.reading() as view:
        payloads = metadata.tables["payloads"]
        pages = [sum(len(row[1]) for row in page) async for page in TableScan(payloads).pages(view)]
    assert len(pages) == 3
    before = await contents(of)
    await copied(of, to)
    assert await contents(to) == before


@pytest.mark.slow
async def test_who_works_on_one_of_them_or_takes_rows_in_is_not_disturbed(tmp_path: Path) -> None:
    of, to = tmp_path / "of.db", tmp_path / "to.db"
    await made(of)
    async with sites(of, to) as places:
        for site in places:
            async with site.holding(now=0, doing="serve"):
                with pytest.raises(LedgerBusyError, match="serve"):
                    await copied(of, to)
        async with at_work(of) as ledger:
            run = await ledger.runs.named("run")
            assert run is not None
            await ledger.runs.intakes.start(run)
        async with places[0].holding_intake("run", now=0):
            with pytest.raises(IntakeBusyError, match="reading rows for the run 'run'"):
                await copied(of, to)
    assert not to.exists()
    await copied(of, to)  # who began to take in is dead, and what it left is cleared there


@pytest.mark.slow
async def test_nothing_is_overwritten_and_nothing_made_of_nothing(tmp_path: Path) -> None:
    of, to, third = (tmp_path / name for name in ("of.db", "to.db", "third.db"))
    with pytest.raises(UsageError, match="there is no ledger here"):
        await copied(of, to)
    await made(of)
    await made(to)
    with pytest.raises(UsageError, match=f"{to}: this ledger has runs, and nothing is overwritten"):
        await copied(of, to)
    await copied(of, third)
    with pytest.raises(UsageError, match=f"{of}: the ledger there was copied to {third}"):
        await copied(to, of)
    with pytest.raises(LedgerRetiredError, match=f"copied to {third}"):
        await copied(of, tmp_path / "fourth.db")
    assert (await copied(of, third)).was_there


async def added(address: LedgerAddress, **rows: Mapping[str, Any]) -> None:
    """A row of each of these tables, as whoever works on the ledger would write it."""
    async with sites(address) as (site,), site.database.writing() as connection:
        for table, row in rows.items():
            await connection.execute(insert(metadata.tables[table]), row)


async def served_for_a_moment(address: LedgerAddress) -> None:
    """What is in a new ledger that was served, and which `orchestrator stop` was given."""
    async with at_work(address) as ledger:
        await ledger.runs.heartbeats.beat(ProcessReport())
        await ledger.commands.ask(Action.STOP)
    await added(
        address,
        process_totals={"slot": 0, "step_s": 60, "at": 60 * S, "body": b"{}"},
        posted_storage={"number": 1, "bytes_max": 9},
    )


@pytest.mark.slow
async def test_one_that_was_served_and_had_nothing_to_do_is_as_good_as_a_new_one(
    places: tuple[LedgerAddress, LedgerAddress],
) -> None:
    of, to = places
    await made(of)
    await served_for_a_moment(of)
    await served_for_a_moment(to)
    before = await contents(of)
    await copied(of, to)
    assert await contents(to) == before


@pytest.mark.slow
async def test_whatever_else_is_there_is_named_and_left(places: tuple[LedgerAddress, LedgerAddress]) -> None:
    of, to = places
    await made(of)
    async with at_work(to):
        pass
    await added(to, pipelines={"name": "nightly", "definition_id": 1, "created_at": 1}, endpoints=ENDPOINT)
    before = await contents(to)
    with pytest.raises(UsageError) as refused:
        await copied(of, to)
    assert str(refused.value) == (
        f"{to}: this ledger has rows of endpoints and pipelines, and nothing is overwritten; name another place"
    )
    assert await contents(to) == before
    async with at_work(of) as ledger:
        assert (await ledger.runs.counts(run=1))["queued"] == JOBS - 3


@pytest.mark.slow
async def test_what_went_there_without_a_run_counts_there_alone_though_the_command_is_given_again(
    places: tuple[LedgerAddress, LedgerAddress],
) -> None:
    of, to = places
    async with at_work(of):
        pass
    await added(of, pipelines={"name": "nightly", "definition_id": 1, "created_at": 1})
    before = await contents(of)
    assert not (await copied(of, to)).was_there
    again = await copied(of, to)
    assert (again.was_there, again.rows["pipelines"]) == (True, 1)
    with pytest.raises(LedgerRetiredError, match="copied to"):
        async with read_ledger(of, clock=SystemClock(), connect=way_to(of)):
            pass
    assert await contents(to) == before


class Stopped(Exception):
    """Somebody has enough of it."""


@pytest.mark.slow
async def test_what_is_ended_in_the_midst_has_not_happened(places: tuple[LedgerAddress, LedgerAddress]) -> None:
    of, to = places

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise Stopped

    await made(of)
    before = await contents(of)
    with pytest.raises(Stopped):
        await copied(of, to, stop)
    assert isinstance(to, LedgerUrl) or not to.exists()
    async with at_work(of) as ledger:
        assert (await ledger.runs.counts(run=1))["queued"] == JOBS - 3
    await copied(of, to)
    assert await contents(to) == before


@pytest.mark.slow
async def test_ctrl_c_is_an_end_like_any_other(tmp_path: Path, server: LedgerUrl) -> None:
    of, to = tmp_path / "of.db", server
    await made(of, 4 * PAGE_ROWS)
    before = await contents(of)
    test = asyncio.current_task()
    assert test is not None

    def interrupt(done: int, _total: int) -> None:
        if PAGE_ROWS < done < 2 * PAGE_ROWS:  # as asyncio does it, while the next pages wait
            asyncio.get_running_loop().call_soon(test.cancel)

    with pytest.raises(asyncio.CancelledError):
        await copied(of, to, interrupt)
    test.uncancel()
    assert await contents(of) == before
    await copied(of, to)
    assert await contents(to) == before


class LosesCommits:
    """A site whose transactions come to nothing at their end, with an error or, of a killed process, without one."""

    def __init__(self, site: LedgerSite) -> None:
        self._site = site

    def __getattr__(self, name: str) -> Any:
        return getattr(self._site, name)

    @property
    def database(self) -> Any:
        return self

    def reading(self) -> Any:
        return self._site.database.reading()

    @asynccontextmanager
    async def writing(self, company: Company) -> AsyncIterator[AsyncConnection]:
        async with self._site.database.writing(company) as connection:
            yield connection
            raise StorageError("the disk is full")


@pytest.mark.slow
async def test_the_source_counts_again_where_the_last_word_of_the_target_fails(
    tmp_path: Path, server: LedgerUrl
) -> None:
    of = tmp_path / "of.db"
    await made(of)
    before = await contents(of)
    async with sites(of, server) as (source, target):
        with pytest.raises(StorageError, match="the disk is full"):
            await copy_ledger(
                source,
                LosesCommits(target),
                clock=SystemClock(),
                tell=lambda *_: None,
                copy_beside=anyio.lowlevel.checkpoint,
            )
    assert await contents(of) == before
    async with at_work(of) as ledger:
        assert (await ledger.runs.counts(run=1))["queued"] == JOBS - 3
    await copied(of, server)
    assert await contents(server) == before


@pytest.mark.slow
async def test_a_vacuum_of_what_was_copied_is_waited_for(tmp_path: Path, server: LedgerUrl) -> None:
    await made(server)
    before, vacuum, onlooker = await contents(server), await driver_of(server), await driver_of(server)
    await vacuum.execute("BEGIN; LOCK TABLE jobs IN SHARE UPDATE EXCLUSIVE MODE")  # what a vacuum has

    async def ends_late() -> None:
        while not await onlooker.fetchval(LONG_WAITED):
            await onlooker.execute("SELECT pg_sleep(0.02)")
        vacuum.terminate()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ends_late)
        await copied(server, tmp_path / "back.db")
    onlooker.terminate()
    assert await contents(tmp_path / "back.db") == before


@pytest.mark.slow
async def test_who_waits_for_its_turn_to_write_has_come_too_late(places: tuple[LedgerAddress, LedgerAddress]) -> None:
    of, to = places
    await made(of)
    async with command_ledger(of, clock=SystemClock(), connect=way_to(of)) as ledger:
        await copied(of, to)
        for late in (ledger.commands.ask(Action.PAUSE, run=1), a_run(ledger, 1, name="late")):
            with pytest.raises(StorageError, match=r"it was copied to .*, and goes on there.*; name that one"):
                await late


@pytest.mark.slow
async def test_who_was_killed_before_the_last_word_gives_the_same_command_again(
    tmp_path: Path, server: LedgerUrl
) -> None:
    of = tmp_path / "of.db"
    await made(of)
    before = await contents(of)
    async with sites(of) as (source,), source.database.writing() as connection:  # its own last word is the first
        await retire(connection, copied_to=str(server), at=1)
    with pytest.raises(LedgerRetiredError, match="copied to"):
        await copied(of, tmp_path / "elsewhere.db")
    assert not (await copied(of, server)).was_there
    assert await contents(server) == before
    assert (await copied(of, server)).was_there


async def is_in_a_transaction(address: LedgerAddress) -> bool:
    """Whether anybody is who writes there, or lets a server wait."""
    if isinstance(address, LedgerUrl):
        driver = await driver_of(address)
        found = await driver.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        await driver.close()
        return bool(found)
    with closing(sqlite3.connect(address, timeout=0, isolation_level=None)) as file:
        try:
            file.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
    return False


@pytest.mark.slow
async def test_what_lies_beside_may_take_its_time_while_nobody_works_on_either(
    places: tuple[LedgerAddress, LedgerAddress],
) -> None:
    of, to = places
    await made(of)
    async with sites(of) as (source,), source.database.writing() as connection:  # of one who was killed
        await retire(connection, copied_to=str(to), at=1)
    along = list[bool]()

    async def beside() -> None:
        for address in places:
            async with sites(address) as (site,):
                with pytest.raises(LedgerBusyError, match="ledger copy"):
                    async with site.holding(now=0, doing="serve"):
                        pass
            along.append(await is_in_a_transaction(address))

    await copied(of, to, copy_beside=beside)
    assert along == [False, False]


async def test_rows_that_came_otherwise_are_noticed(tmp_path: Path) -> None:
    of, to = tmp_path / "of.db", tmp_path / "to.db"
    await made(of)
    async with at_work(to):
        pass
    with closing(sqlite3.connect(to)) as file, file:
        file.execute(
            "CREATE TRIGGER spoil AFTER INSERT ON jobs WHEN new.id = 4"
            " BEGIN UPDATE jobs SET priority = 9 WHERE id = 4; END"
        )
    with pytest.raises(StorageError, match="the rows of jobs are not those that were copied"):
        await copied(of, to)
    assert (await contents(to))["jobs"] == []
    assert len((await contents(of))["jobs"]) == JOBS


@pytest.mark.slow
async def test_a_character_that_a_server_does_not_know_is_replaced_but_never_in_an_id(
    tmp_path: Path, server: LedgerUrl
) -> None:
    of = tmp_path / "of.db"
    await made(of)
    with closing(sqlite3.connect(of)) as file, file:
        file.execute("UPDATE outcomes SET message = 'CUDA' || char(0) || 'error' WHERE message IS NOT NULL")
        file.execute("UPDATE jobs SET custom_id = 'a' || char(0) WHERE id = 2")
    with pytest.raises(UsageError, match="the custom_id of the job 2 has the character 0 in it"):
        await copied(of, server)
    with closing(sqlite3.connect(of)) as file, file:
        file.execute("UPDATE jobs SET custom_id = 'a' WHERE id = 2")
    await copied(of, server)
    messages = {row[7] for row in (await contents(server))["outcomes"]} - {None}
    assert messages == {"CUDA\ufffderror"}
