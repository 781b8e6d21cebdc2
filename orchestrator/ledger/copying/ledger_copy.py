"""A ledger is copied into another one, in whichever database each is, and goes on there: the first one is retired.

Whoever is killed at any moment leaves one ledger that counts. The source is locked while it is read. It says where it
went before the copy can be seen there; one that says so while nothing is there can be copied to that place anew.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from hashlib import blake2b
from typing import Any, Final

import anyio
import msgspec
from anyio import CancelScope
from sqlalchemy import Select, String, Table, delete, func, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.clock import Clock
from orchestrator.errors import LedgerRetiredError, OrchestratorError, StorageError, UsageError, leading
from orchestrator.ledger.database import Company
from orchestrator.ledger.opening import no_ledger
from orchestrator.ledger.schema.job_tables import commands, heartbeats, intakes, jobs, metadata, runs
from orchestrator.ledger.schema.posted_tables import posted_storage
from orchestrator.ledger.schema.retirement import retire, take_back
from orchestrator.ledger.schema.sample_tables import process_totals
from orchestrator.ledger.sites.site import LedgerSite
from orchestrator.ledger.sites.webhook_key import key_in_file
from orchestrator.ledger.statements import BulkInsert, NumberSequence
from orchestrator.ledger.table_scans import Row, TableScan
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import LedgerUrl

Tell = Callable[[int, int], None]
"""Told how many rows were copied or compared, and of how many."""

CopyBeside = Callable[[], Awaitable[None]]
"""Copies what lies beside the one to the other."""

_DOING: Final = "ledger copy"
_NUL: Final = "\0"
_IN_ITS_PLACE: Final = "\ufffd"

_OF_PROCESSES: Final = (heartbeats, process_totals, commands, posted_storage)
"""Where nothing else is, these have rows of processes that have ended: it was served, and had nothing to do."""

_NOTHING: Final = text("SELECT 1")
_KEY_NOTED: Final = text("SELECT webhook_key FROM identity")
_NOTE_KEY: Final = text("UPDATE identity SET webhook_key = :key")
_encode: Final = msgspec.msgpack.Encoder().encode


class CopiedRows(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied."""

    rows: Mapping[str, int]
    """By table."""

    was_there: bool = False
    """Whether an earlier process had done it, down to its last word."""


async def copy_ledger(
    source: LedgerSite, target: LedgerSite, *, clock: Clock, tell: Tell, copy_beside: CopyBeside
) -> CopiedRows:
    """Copies all that `source` holds to `target`, where nothing may be but what processes leave that had nothing to do,
    compares it, and retires `source`.

    Nobody works on either meanwhile. `copy_beside` is called before any row is copied. Where it fails, `source` counts,
    and `target` has the rows that it had; where none was before, a server keeps empty tables, and a folder no file.

    Raises `LedgerBusyError` where somebody works on one of them, or takes rows in; `UsageError` where `target` has
    something already, or `source` went elsewhere, or holds what `target` cannot; `LedgerVersionError`; and
    `StorageError`.
    """
    async with AsyncExitStack() as held:
        is_retired, is_new = await _is_retired(source, to=target), await _is_new(target)
        if source.inspection is not None and not is_retired:
            await source.inspection.check_owner("retire them, as a copy does")
        for site in (target,) if is_retired else (source, target):
            await held.enter_async_context(site.holding(now=clock.now(), doing=_DOING))
        await target.migrate()
        try:
            there = await _rows_of(target)
            kept = _kept_tables(there)
            if kept and is_retired:
                return CopiedRows(rows=there, was_there=True)
            _refuse_kept(target, kept)
            if is_retired:
                await _take_back(source)
                await held.enter_async_context(source.holding(now=clock.now(), doing=_DOING))
            await source.migrate()
            for (name,) in await source.database.asked(_intakes_left(), None, lambda found: found.all()):
                await held.enter_async_context(source.holding_intake(name, now=clock.now()))
            await copy_beside()  # which may take longer than a server lets a transaction stand still
            return CopiedRows(rows=await _copied(source, target, clock, tell))
        except BaseException:
            if is_new:
                with CancelScope(shield=True):
                    await _unmade(target)
            raise


async def _is_new(target: LedgerSite) -> bool:
    try:
        return await target.version() is None
    except LedgerRetiredError as error:
        raise UsageError(
            f"{target.address}: the ledger there was copied to {error.copied_to}, and nothing is overwritten; name"
            " another place, or move it away"
        ) from None


def _refuse_kept(target: LedgerSite, kept: Sequence[str]) -> None:
    if kept:
        what = runs.name if runs.name in kept else f"rows of {' and '.join(kept)}"
        raise UsageError(f"{target.address}: this ledger has {what}, and nothing is overwritten; name another place")


async def _is_retired(source: LedgerSite, *, to: LedgerSite) -> bool:
    """Whether it says that it went there. Raises `UsageError` where there is none, or it went elsewhere."""
    try:
        found = await source.version()
    except LedgerRetiredError as error:
        if error.copied_to != str(to.address):
            raise
        return True
    if found is None:
        raise no_ledger(source.address)
    return False


async def _copied(source: LedgerSite, target: LedgerSite, clock: Clock, tell: Tell) -> Mapping[str, int]:
    """The source commits first: never do both count."""
    try:
        long = Company.FOR_LONG
        async with target.database.writing(long) as to, source.database.writing(long) as of:
            rows = await _rows_copied(of, to, tell, target)
            if isinstance(target.address, LedgerUrl) and (key := await _webhook_key_of(source, of)):
                await to.execute(_NOTE_KEY, {"key": key})
            await retire(of, copied_to=str(target.address), at=clock.now())
    except BaseException:
        with CancelScope(shield=True), suppress(OrchestratorError):  # else the same command finds out later
            if not _kept_tables(await _rows_of(target)):
                await _take_back(source)
        raise
    return rows


async def _webhook_key_of(source: LedgerSite, of: AsyncConnection) -> str:
    """The fingerprint of the key by which the webhooks of what comes are signed; empty: of none."""
    if isinstance(source.address, LedgerUrl):
        return str((await of.execute(_KEY_NOTED)).scalar_one())
    return key_in_file(source.address)


async def _take_back(source: LedgerSite) -> None:
    async with source.database.writing() as connection:
        await take_back(connection)


async def _unmade(target: LedgerSite) -> None:
    """Leaves no file where none was, unless the copy is in it."""
    if isinstance(target.address, LedgerUrl) or _kept_tables(await _rows_of(target)):
        return
    await target.aclose()
    for suffix in ("", Companion.WRITE_AHEAD_LOG, Companion.SHARED_MEMORY):
        companion_of(target.address, suffix).unlink(missing_ok=True)


def _intakes_left() -> Select[Any]:
    """Asks for the runs for which somebody takes rows in, or has died over it."""
    left = select(runs.c.name).join(intakes, intakes.c.run_id == runs.c.id)
    return left.where(intakes.c.accepted_at.is_(None)).distinct()


def _count(table: Table) -> Select[Any]:
    return select(func.count()).select_from(table)


async def _rows_of(site: LedgerSite) -> Mapping[str, int]:
    """How many rows each table has."""
    async with site.database.reading() as view:
        return {table.name: (await view.execute(_count(table))).scalar_one() for table in metadata.sorted_tables}


def _kept_tables(rows: Mapping[str, int]) -> Sequence[str]:
    """The names of those tables, by how many rows each has, of whose rows no copy may take the place."""
    passing = {table.name for table in _OF_PROCESSES}
    return sorted(name for name, n in rows.items() if n and name not in passing)


async def _rows_copied(of: AsyncConnection, to: AsyncConnection, tell: Tell, target: LedgerSite) -> Mapping[str, int]:
    """Copies and compares all tables; returns how many rows each has. Raises as `copy_ledger` does."""
    tables = metadata.sorted_tables
    numbers = [(await of.execute(_count(table))).scalar_one() for table in tables]
    progress = _Progress(tell, 2 * sum(numbers))
    is_server = isinstance(target.address, LedgerUrl)
    for table in _OF_PROCESSES:
        await to.execute(delete(table))
    copied = {table: await _table_copied(table, of, to, progress, is_server=is_server) for table in tables}
    for table in tables:
        if await _seal_of(table, to, progress, also=of) != copied[table]:
            raise StorageError(f"{target.address}: the rows of {table.name} are not those that were copied; nothing is")
    return {table.name: n for table, (n, _) in copied.items()}


class _Progress:
    def __init__(self, tell: Tell, total: int) -> None:
        self._tell, self._total, self._done = tell, total, 0

    def add(self, rows: int) -> None:
        self._done += rows
        self._tell(self._done, self._total)


class _Rows:
    """Rows of a table, counted and summed up as they come."""

    def __init__(self, progress: _Progress) -> None:
        self._progress = progress
        self._checksum, self._number = blake2b(), 0

    def add(self, page: Sequence[Row]) -> None:
        self._checksum.update(_encode(page))  # both sides read by the same pages
        self._number += len(page)
        self._progress.add(len(page))

    @property
    def seal(self) -> "_Seal":
        return self._number, self._checksum.digest()


_Seal = tuple[int, bytes]
"""How many rows a table has, and a checksum of them all, in the order of their key."""


async def _table_copied(
    table: Table, of: AsyncConnection, to: AsyncConnection, progress: _Progress, *, is_server: bool
) -> _Seal:
    rows = _Rows(progress)
    insert = BulkInsert(table, *table.columns.keys())
    texts = [n for n, column in enumerate(table.columns) if is_server and isinstance(column.type, String)]

    async def take(page: Sequence[Row]) -> None:
        page = _without_nul(table, page, texts)
        await insert.execute(to, page)
        await to.execute(_NOTHING)  # else SQLite's would wait in memory until something is asked
        rows.add(page)

    await _each_page(table, of, take)
    if table.autoincrement_column is not None:
        numbers = NumberSequence(table.autoincrement_column)
        await numbers.go_on_at(to, await numbers.following(of))
    return rows.seal


async def _seal_of(table: Table, connection: AsyncConnection, progress: _Progress, *, also: AsyncConnection) -> _Seal:
    rows = _Rows(progress)

    async def take(page: Sequence[Row]) -> None:
        await also.execute(_NOTHING)  # a server ends transactions in which nothing is done
        rows.add(page)

    await _each_page(table, connection, take)
    return rows.seal


async def _each_page(
    table: Table, connection: AsyncConnection, take: Callable[[Sequence[Row]], Awaitable[None]]
) -> None:
    """Has all pages of `table` taken, one after the other. While one is, the next is read."""
    read, pages = anyio.create_memory_object_stream[Sequence[Row]](1)

    async def scan() -> None:
        with suppress(anyio.BrokenResourceError):  # who takes them has come to an end
            async with read:
                async for page in TableScan(table).pages(connection):
                    await read.send(page)

    try:
        async with anyio.create_task_group() as tasks, pages:
            tasks.start_soon(scan)
            async for page in pages:
                await take(page)
    except BaseExceptionGroup as group:
        raise leading(group) from group


def _without_nul(table: Table, page: Sequence[Row], texts: Sequence[int]) -> Sequence[Row]:
    """The same rows, with the character 0, of which a server knows none, replaced in their `texts`."""
    spoiled = [(at, place) for place in texts for at, row in enumerate(page) if row[place] and _NUL in row[place]]
    if not spoiled:
        return page
    rows = list(page)
    for at, place in spoiled:
        if table is jobs:
            raise UsageError(
                f"the custom_id of the job {rows[at][0]} has the character 0 in it, which no server takes; have its run"
                " end where it is, and delete it"
            )
        changed = rows[at][place].replace(_NUL, _IN_ITS_PLACE)
        rows[at] = (*rows[at][:place], changed, *rows[at][place + 1 :])
    return rows
