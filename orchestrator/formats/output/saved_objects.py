"""Files made of members of outputs, wherever they are to be: of this machine, or objects of stores.

An object gets its name as a file does: it takes no other one's place, one that holds the same is it, and beside another
one it gets a number. It appears in one step, and only if nothing stands there.
"""

import errno
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from itertools import count
from types import TracebackType
from typing import IO, Final, Protocol, Self

from orchestrator.core.outputs.save_rules import numbered
from orchestrator.core.outputs.saved_members import SavedFile
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.errors import StorageError
from orchestrator.formats.output.saved_files import NewFile, flaw_of, folder_fault
from orchestrator.stores.object_url import ObjectUrl
from orchestrator.stores.store_errors import StoreError
from orchestrator.units import MIB

_PROBE: Final = ".orchestrator"
"""What an object would be called by which it is found out whether any can be written."""


class FileToSave(Protocol):
    """A file that is to be saved: `NewFile`, or `NewObject`. All of it raises `OSError`."""

    def __enter__(self) -> Self: ...
    def write(self, data: bytes) -> None:
        """Adds `data`."""
        ...

    def commit(self) -> SavedFile:
        """Puts it in its place; returns what it is."""
        ...

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


class NewObject:
    """The coming object that `parts` lead to below the URL `folder`; what is to be in it waits in a file that has no
    name. Otherwise as `NewFile`.
    """

    def __init__(self, folder: str, parts: Sequence[str]) -> None:
        self._folder = "/".join((folder.rstrip("/"), *parts[:-1]))
        self._name = parts[-1]
        self._file: IO[bytes] | None = None
        self._hash = sha256()
        self._bytes = 0

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile()
        return self

    def write(self, data: bytes) -> None:
        """Adds `data`."""
        assert self._file is not None
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)

    def commit(self) -> SavedFile:
        """Has it appear; returns what it is."""
        for number in count(1):
            url = ObjectUrl(f"{self._folder}/{numbered(self._name, number)}")
            saved = SavedFile(file=str(url), bytes=self._bytes, sha256=self._hash.hexdigest())
            if self._has_appeared(url) or flaw_of(saved) is None:
                return saved
        raise AssertionError

    def _has_appeared(self, url: ObjectUrl) -> bool:
        """Puts it there, unless something is there."""
        from orchestrator.stores.object_writer import ObjectReplacement  # noqa: PLC0415  loads what asks stores

        assert self._file is not None
        self._file.seek(0)
        try:
            with ObjectReplacement(url, is_new=True) as coming:
                while piece := self._file.read(MIB):
                    coming.write(piece)
                coming.prepare()
                coming.put_in_place()
        except StorageError as error:
            cause = error.__cause__
            if isinstance(cause, StoreError) and cause.errno == errno.ESTALE:
                return False
            raise cause if isinstance(cause, OSError) else OSError(errno.EIO, str(error)) from None
        return True

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()


def file_to_save(folder: str, parts: Sequence[str]) -> FileToSave:
    """The file, or object, that `parts` lead to below `folder`."""
    return NewObject(folder, parts) if is_object_url(folder) else NewFile(folder, parts)


def place_fault(folder: str) -> str | None:
    """Why nothing can be saved to `folder`; None where it can. Raises `UsageError` where that is in a store that cannot
    be written.
    """
    if not is_object_url(folder):
        return folder_fault(folder)
    from orchestrator.stores.object_writer import check_object_writable  # noqa: PLC0415  loads what asks stores

    check_object_writable(ObjectUrl(f"{folder.rstrip('/')}/{_PROBE}"))
    return None
