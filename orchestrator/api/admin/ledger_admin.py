"""A ledger as a file: what it holds and how large it is, a copy of it (backup), and its unused room (vacuum)."""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import msgspec
from anyio import to_thread

from orchestrator.api.outcomes.output_places import check_outputs
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger, command_ledger, read_ledger
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.addresses.ledger_address import SCHEMA, LedgerAddress, LedgerUrl, file_of
from orchestrator.views.ledger_server import ServerFacts


class WorkingProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that works on a ledger. Times are microseconds since the epoch, UTC."""

    process: str
    """Host and process id."""

    since: int
    reported_at: int = msgspec.field(name="said_at")


class LedgerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `orchestrator ledger info` shows."""

    ledger: str
    schema: str
    """The latest migration that was applied."""

    file_bytes: int
    """All pages, those in the write-ahead log included."""

    free_bytes: int
    """Pages of it that nothing uses."""

    log_bytes: int
    """The write-ahead log beside it, as it stands on the disk."""

    rows: Mapping[str, int]
    """By table."""

    holder: str | None = msgspec.field(name="held_by")
    at_work: tuple[WorkingProcess, ...]
    server: ServerFacts | None = None
    """How the server stands on which it is; None for a file."""


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a ledger."""

    ledger: str
    copy: str
    file_bytes: int


class Compacted(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger without unused room; bytes of all its pages, on a server of tables and indexes."""

    ledger: str
    bytes_before: int
    bytes_after: int


async def ledger_info(ledger: LedgerAddress) -> LedgerInfo:
    """Looks at the ledger, beside whoever works on it. Raises `UsageError` where there is none."""
    async with read_ledger(ledger) as opened:
        size = await opened.reports.upkeep.size()
        held_by = await opened.holder()
        beats = await opened.beats_at_work(held_by)
        return LedgerInfo(
            ledger=str(ledger),
            schema=await opened.reports.upkeep.schema(),
            file_bytes=size.pages * size.page_bytes,
            free_bytes=size.free_pages * size.page_bytes,
            log_bytes=file_bytes_of(ledger, Companion.WRITE_AHEAD_LOG),
            rows=await opened.reports.upkeep.rows(),
            holder=held_by,
            at_work=tuple(
                WorkingProcess(process=beat.process, since=beat.began_at, reported_at=beat.beaten_at) for beat in beats
            ),
            server=None if opened.server is None else await opened.server.facts(),
        )


async def ledger_backup(ledger: LedgerAddress, copy: Path) -> BackedUp:
    """Writes all that is committed in the ledger to the file `copy`, which appears whole, while it may be in use.

    Raises `UsageError` where there is no ledger, one on a server, or a file at `copy` already, and `StorageError` where
    it cannot be written.
    """
    if isinstance(ledger, LedgerUrl):
        raise UsageError(
            f"{ledger}: a ledger on a server is copied by the server's own programs, also while it is in use: "
            + shlex.join(_dump_words(ledger, copy))
        )
    _check_free(copy)
    async with read_ledger(ledger) as opened:
        check_outputs(ledger, (copy,))
        temporary = copy.with_name(f".{copy.name}.{os.getpid()}.tmp")
        try:
            await _copied(opened, temporary)
            await to_thread.run_sync(_put_in_place, temporary, copy)
        finally:
            temporary.unlink(missing_ok=True)
    return BackedUp(ledger=str(ledger), copy=str(copy), file_bytes=file_bytes_of(copy))


def _check_free(copy: Path) -> None:
    if os.path.lexists(copy):
        raise UsageError(f"{copy}: there is a file already, and nothing is overwritten; name another one")


def _dump_words(ledger: LedgerUrl, copy: Path) -> tuple[str, ...]:
    """The command that writes its schema into the file `copy`, over a line that is as safe as ours."""
    tls = dict(ledger.tls) if ledger.tls_mode == "prefer" else {"sslmode": ledger.tls_mode, **ledger.tls}
    database = msgspec.structs.replace(ledger, schema=SCHEMA, tls=tls)
    schema = ledger.schema if ledger.schema.islower() else f'"{ledger.schema}"'
    return ("pg_dump", "-Fc", "-n", schema, "-f", str(copy), str(database))


async def _copied(ledger: Ledger, temporary: Path) -> None:
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, file_of(ledger.address).stat().st_mode & 0o777)
        os.close(descriptor)
    except OSError as error:
        raise UsageError(f"{temporary}: cannot be written ({error.strerror})") from error
    await ledger.reports.upkeep.copy_to(temporary)


def _put_in_place(temporary: Path, copy: Path) -> None:
    """Makes the copy durable, and gives it its name, unless somebody has made a file of that name meanwhile."""
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.link(temporary, copy)
    except OSError as error:
        raise StorageError(f"{copy}: cannot be written ({error.strerror})") from error


async def ledger_compact(ledger: LedgerAddress, dependencies: Dependencies | None = None) -> Compacted:
    """Writes the ledger anew without unused pages. Nobody works on it meanwhile.

    Raises `UsageError` where there is none, somebody works on it, or its tables on a server are another role's, and
    `StorageError` where there is no room for it.
    """
    given = dependencies or Dependencies()
    async with (
        command_ledger(ledger, clock=given.clock, connect=given.connect_to(ledger)) as opened,
        given.lock(ledger, now=given.clock.now(), doing="ledger compact"),
    ):
        if opened.server is not None:
            await opened.server.check_owner("write them anew")
        before = await opened.reports.audit.file_bytes()
        await opened.reports.upkeep.compact()
        return Compacted(ledger=str(ledger), bytes_before=before, bytes_after=await opened.reports.audit.file_bytes())


def file_bytes_of(ledger: LedgerAddress, suffix: str = "") -> int:
    """How large the file on the disk is, or the one beside it whose name ends in `suffix`; 0 where there is none."""
    try:
        return companion_of(ledger, suffix).stat().st_size
    except FileNotFoundError:
        return 0
