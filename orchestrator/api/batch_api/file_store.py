"""The files of the Batch API: a row of the ledger for each, and its content in `LEDGER.files/`, under its id.

The row decides: content is put in its place first, synced, and then the row is written. So a process that is killed in
between leaves content that nobody can ask for, which `sweep` removes.
"""

import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from anyio import to_thread

from orchestrator.api.batch_api.refusals import RefusalKind, RequestRefusedError, not_found
from orchestrator.core.batch_api.posted_file import PostedFile, Purpose, clean_filename
from orchestrator.core.text.figures import rough_lasting
from orchestrator.errors import StorageError, UsageError
from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.ledger import Ledger
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.settings.batch_api.batch_api_settings import MB, BatchApiSettings
from orchestrator.units import MINUTE_US, SECOND_US

PRIVATE: Final = 0o600
ID_BYTES: Final = 12

UNCLAIMED_US: Final = 10 * MINUTE_US
"""Content without a row that nobody has written to for so long is of a process that was killed: whoever uploads is cut
off sooner, on whichever machine.
"""

OLDEST_SHOWN: Final = 3

DISK_KEPT_MAX, DISK_KEPT_PART = 256 * MB, 20
"""No file is taken that would leave less of the disk than 256 MB, or of a small one than a twentieth: the ledger
lies there too, and without it nothing is collected.
"""

NO_ROOM: Final = "storage_limit_exceeded"


def new_id(kind: str) -> str:
    """An id that nobody guesses."""
    return f"{kind}{secrets.token_hex(ID_BYTES)}"


@dataclass(kw_only=True, eq=False)
class FileStore:
    """Those of one ledger, which is open to be written."""

    ledger: Ledger
    settings: BatchApiSettings
    _on_their_way: int = field(default=0, init=False)
    """Bytes of files that are coming, as many as they may have at most."""

    @cached_property
    def folder(self) -> Path:
        """Where the contents are."""
        return companion_of(self.ledger.address, Companion.POSTED_FILES)

    def path(self, file: str) -> Path:
        """Where the content of the file of that id is: one that the ledger knows."""
        return self.folder / file

    def make_folder(self) -> None:
        """Makes the folder, which its owner alone may enter. Raises `StorageError`."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be made ({error.strerror})") from error

    @contextmanager
    def coming(self, file: str) -> Iterator[Replacement]:
        """The coming content of the file of that id. Raises `StorageError`."""
        with ExitStack() as stack:
            try:
                content = stack.enter_context(Replacement(self.path(file), mode=PRIVATE))
            except UsageError as error:  # nobody has named a place here who could name another one
                raise StorageError(error.message) from error
            yield content

    # --- what programs ask for

    @asynccontextmanager
    async def room(self, owner: str, coming: int) -> AsyncIterator[None]:
        """Keeps room for so many bytes, of a file that comes meanwhile, beside others that do. Raises
        `RequestRefusedError` where they would be too many, or the disk could not hold what else lies on it, and
        `LedgerUnavailableError`.
        """
        self.ledger.patience.check()
        self._on_their_way += coming  # before it is looked: others come meanwhile
        try:
            if (
                await self.ledger.runs.posted.files.stored_bytes() + self._on_their_way
                > self.settings.storage_bytes_max
            ):
                raise await self._no_room(owner)
            if await to_thread.run_sync(self._disk_left) < self._on_their_way:
                told = f"The disk of this server has no room for {coming / MB:,.1f} MB; whoever runs it can make some."
                raise RequestRefusedError(told, param="file", code=NO_ROOM)
            yield
        finally:
            self._on_their_way -= coming

    async def add(
        self, owner: str, content: Replacement, *, filename: str, size: int, expires_at: int | None
    ) -> PostedFile:
        """The file whose whole content has come: it is there from now on. Raises `RequestRefusedError` where it does
        not fit in, and `StorageError`.
        """
        self.ledger.patience.check()
        now = self.ledger.now()
        file = PostedFile(
            id=content.path.name,
            owner=owner,
            filename=clean_filename(filename),
            purpose=Purpose.BATCH,
            size=size,
            created_at=now,
            expires_at=expires_at or now + self.settings.keep_files_us,
        )
        await to_thread.run_sync(content.commit)
        try:
            is_added = await self.ledger.runs.posted.files.add(file, bytes_max=self.settings.storage_bytes_max)
        except StorageError:
            await self._unlink([file.id])
            raise
        if not is_added:
            await self._unlink([file.id])
            raise await self._no_room(owner)
        return file

    async def one(self, owner: str, file: str, *, param: str = "id") -> PostedFile:
        """The file of that id. Raises `RequestRefusedError` where `owner` has none."""
        found = await self.ledger.runs.posted.files.one(owner, file)
        if found is None or (found.expires_at or found.created_at) <= self.ledger.now():
            raise not_found("File", file, param=param)
        return found

    async def delete(self, owner: str, file: str) -> PostedFile:
        """Removes the file of that id. Raises `RequestRefusedError` where `owner` has none, and
        `LedgerUnavailableError`.
        """
        self.ledger.patience.check()
        found = await self.one(owner, file)
        if await self.ledger.runs.posted.batches.is_awaiting(file):
            raise RequestRefusedError(f"{file} is being read for a batch", RefusalKind.CONFLICT, param="id")
        await self._remove([found])
        return found

    # --- upkeep

    async def tidy(self) -> None:
        """Removes the files that have expired, and content without a row that nobody is writing. Raises
        `StorageError`.
        """
        await self._remove(await self.ledger.runs.posted.files.expired(self.ledger.now()))
        await self._sweep()

    async def _sweep(self) -> None:
        before_s = (self.ledger.now() - UNCLAIMED_US) / SECOND_US
        posted, left = self.ledger.runs.posted, await to_thread.run_sync(_unwritten_since, self.folder, before_s)
        known = await posted.batches.named_files() | await posted.files.known(left)
        await self._unlink([each for each in left if each not in known])

    async def _remove(self, files: list[PostedFile]) -> None:
        if files:
            await self.ledger.runs.posted.files.remove([each.id for each in files])
            await self._unlink([each.id for each in files])

    async def _unlink(self, names: Sequence[str]) -> None:
        """In a thread: a large file takes its time."""
        await to_thread.run_sync(_unlinked, self.folder, names)

    def _disk_left(self) -> int:
        try:
            disk = shutil.disk_usage(self.folder)
        except OSError as error:
            raise StorageError(f"{self.folder}: cannot be looked at ({error.strerror})") from error
        return disk.free - min(DISK_KEPT_MAX, disk.total // DISK_KEPT_PART)

    async def _no_room(self, owner: str) -> RequestRefusedError:
        files, now = self.ledger.runs.posted.files, self.ledger.now()
        used, most = await files.stored_bytes(), self.settings.storage_megabytes_max
        oldest = await files.page(owner, after=None, most=OLDEST_SHOWN, is_oldest_first=True)
        told = "; ".join(
            f"{each.id} ({each.size / MB:,.1f} MB, {rough_lasting((now - each.created_at) / SECOND_US)} old)"
            for each in oldest
        )
        return RequestRefusedError(
            f"There is no room: the files have {used / MB:,.1f} of {most:,} MB. Delete some; your oldest:"
            f" {told or 'none'}",
            RefusalKind.INVALID,
            param="file",
            code=NO_ROOM,
        )


def _unlinked(folder: Path, names: Sequence[str]) -> None:
    for name in names:
        with suppress(OSError):  # what stays has no row, and is swept
            (folder / name).unlink()


def _unwritten_since(folder: Path, before_s: float) -> list[str]:
    """What lies in the folder that nobody has written to since then."""
    found = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):  # somebody else was faster
                if entry.stat(follow_symlinks=False).st_mtime < before_s:
                    found.append(entry.name)
    return found
