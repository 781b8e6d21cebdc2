"""A ledger that was deleted, moved or replaced while a run worked on it: all that is still open is saved."""

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from orchestrator.errors import DeposedError, StorageError
from orchestrator.ledger import Ledger, LedgerFiles
from orchestrator.settings import run_request


@asynccontextmanager
async def rescuing(ledger: Ledger) -> AsyncIterator[None]:
    """Whatever ends the block, where the ledger is not in its place any more that is why: raises `StorageError`."""
    try:
        yield
    except Exception as error:
        if isinstance(ledger.place, LedgerFiles) and (missing := ledger.place.missing()) is not None:
            raise await _misplaced(ledger, ledger.place, missing) from error
        if (lost := ledger.place.lost()) is not None:
            raise DeposedError(lost) from error
        raise


async def _misplaced(ledger: Ledger, place: LedgerFiles, missing: Path) -> StorageError:
    """Why the run ends, and where its data is. What is nowhere as a whole is written out: see `saved`."""
    told = f"{missing}: gone, or another file, while this run worked with it; nothing more was sent."
    if place.is_whole:
        return StorageError(f"{told} The ledger is unharmed: give the same command again")
    moved_to = place.moved_to()
    if moved_to is not None and place.is_whole_at(moved_to):
        return StorageError(
            f"{told} The ledger is now {moved_to}: move it back, or go on with {run_request.LEDGER} {moved_to}"
        )
    copy = await saved(ledger, place.path)
    if copy is None:
        return StorageError(f"{told} No copy could be saved: no folder takes it. Restore the ledger from a backup")
    kept = "" if moved_to is None else f" Part of it is now {moved_to}, which is not to be used."
    return StorageError(f"{told}{kept} All of it was saved as {copy}: go on with {run_request.LEDGER} {copy}")


async def saved(ledger: Ledger, path: Path) -> Path | None:
    """Writes the ledger as it is open to a new file: beside its `path`, else in the current or a temporary folder."""
    name = f"{path.name}.rescued-{datetime.fromtimestamp(ledger.now() / 1_000_000, UTC):%Y%m%dT%H%M%SZ}"
    for folder in (path.parent, Path.cwd, tempfile.gettempdir):
        copy: Path | None = None
        try:
            copy = _new_file(Path(folder() if callable(folder) else folder) / name)
            await ledger.reports.upkeep.copy_to(copy)
        except (OSError, StorageError):
            if copy is not None:
                copy.unlink(missing_ok=True)
            continue
        return copy
    return None


def _new_file(path: Path) -> Path:
    """An empty file at `path`, or beside it where there is one: nothing is overwritten."""
    for number in range(1, 100):
        numbered = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            os.close(os.open(numbered, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            continue
        return numbered
    raise FileExistsError(path)
