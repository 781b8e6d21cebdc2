"""A file made of a member of an output: it appears whole, below its folder, and takes no other file's place.

It is written beside its place, synced (fsync), and linked there, which fails where something stands already. If that
holds the same, it is this file, written before: by a process that died before it could record it, or by whoever had
the same result twice. Else the file gets the next number, `a7-2.png`. Folders below the one that people have named are
opened one by one and no symbolic link is followed, so that nothing is written anywhere else.
"""

import errno
import fcntl
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from hashlib import file_digest, sha256
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from orchestrator.core.outputs.save_rules import numbered
from orchestrator.core.outputs.saved_members import SavedFile
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.stores.object_url import ObjectUrl
from orchestrator.stores.store_errors import is_missing

_NEW_FILE_MODE: Final = 0o666
_NEW_FOLDER_MODE: Final = 0o777
"""What any program creates them with; the umask takes away from it."""

_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NO_FOLDER: Final = (errno.ENOTDIR, errno.ELOOP)
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
"""What file systems say that have no second names for a file."""


class NewFile:
    """The coming file that `parts` lead to below `folder`. All of it raises `OSError`.

    Used as a context manager: `write` as often as needed, then `commit`. Leaving without that leaves nothing. What a
    crash leaves is `.NAME.orchestrator-1.tmp`, which nobody has locked: who makes a file of that name next removes it.
    """

    def __init__(self, folder: str, parts: Sequence[str]) -> None:
        self._parts = parts
        self._name = parts[-1]
        self._folder = Path(folder)
        self._temporary = ""
        self._descriptor = -1
        self._file: BinaryIO | None = None
        self._hash = sha256()
        self._bytes = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._descriptor = _opened_below(self._folder, self._parts[:-1])
        try:
            self._file = os.fdopen(self._created(), "wb", 0)
        except OSError:
            os.close(self._descriptor)
            raise
        return self

    def _created(self) -> int:
        """Opened beside its place, by a name that nobody has, and locked: one result may come twice at once."""
        for number in count(1):
            self._temporary = self._beside(number)
            self._is_there(self._temporary)
            with suppress(FileExistsError):
                descriptor = os.open(self._temporary, _CREATE, _NEW_FILE_MODE, dir_fd=self._descriptor)
                if _is_locked(descriptor) is not False:
                    self._remove_left(number + 1)
                    return descriptor
                os.close(descriptor)  # whoever saw it before it was locked removes it
        raise AssertionError

    def _remove_left(self, first: int) -> None:
        """Removes what is left of others of this name, from the number `first` on."""
        for number in count(first):
            if not self._is_there(self._beside(number)):
                return

    def _beside(self, number: int) -> str:
        return f".{self._name}.orchestrator-{number}.tmp"

    def _is_there(self, name: str) -> bool:
        """Whether a file of that name was there; one that a process has left that was killed is no more."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except OSError:
            return False
        if _is_locked(descriptor) and self._is_called(name, descriptor):
            with suppress(OSError):
                os.unlink(name, dir_fd=self._descriptor)
        os.close(descriptor)
        return True

    def _is_called(self, name: str, descriptor: int) -> bool:
        """Whether the name is still that of this file: meanwhile another one may have it."""
        try:
            there = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), there)

    def write(self, data: bytes) -> None:
        """Adds `data`."""
        assert self._file is not None
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._hash.update(data)
        self._bytes += len(data)

    def commit(self) -> SavedFile:
        """Puts it in its place, durably; returns what it is."""
        assert self._file is not None
        os.fsync(self._file.fileno())
        name = self._placed()
        os.fsync(self._descriptor)
        path = self._folder.joinpath(*self._parts[:-1], name)
        return SavedFile(file=str(path), bytes=self._bytes, sha256=self._hash.hexdigest())

    def _placed(self) -> str:
        """Its name, under which it stands there by now."""
        for number in count(1):
            name = numbered(self._name, number)
            if self._is_taken(name):
                if self._is_same(name):
                    return name
            elif self._has_linked(name):
                return name
        raise AssertionError

    def _is_taken(self, name: str) -> bool:
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def _is_same(self, name: str) -> bool:
        """Whether what stands there holds the same."""
        try:
            descriptor = os.open(name, _READ, dir_fd=self._descriptor)
        except OSError:
            return False  # a link, or nothing that we may read
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size != self._bytes:
            os.close(descriptor)
            return False
        with os.fdopen(descriptor, "rb") as file:
            return file_digest(file, "sha256").hexdigest() == self._hash.hexdigest()

    def _has_linked(self, name: str) -> bool:
        """Gives it the name, unless something else has got that meanwhile."""
        own = {"src_dir_fd": self._descriptor, "dst_dir_fd": self._descriptor}
        try:
            os.link(self._temporary, name, **own, follow_symlinks=False)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            os.rename(self._temporary, name, **own)  # noqa: PTH104  in this folder, wherever its path leads by now
            self._temporary = ""
        return True

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            if self._temporary:
                with suppress(OSError):
                    os.unlink(self._temporary, dir_fd=self._descriptor)
            with suppress(OSError):
                self._file.close()
        os.close(self._descriptor)


def _is_locked(descriptor: int) -> bool | None:
    """Whether this one holds the file from now on, until it is closed; None where a file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _opened_below(folder: Path, parts: Sequence[str]) -> int:
    """The folder that `parts` lead to, made where it is not there."""
    descriptor = os.open(folder, _OPEN_FOLDER)
    for part in parts:
        above = descriptor
        try:
            with suppress(FileExistsError):
                os.mkdir(part, _NEW_FOLDER_MODE, dir_fd=above)
                os.fsync(above)
            descriptor = os.open(part, _OPEN_FOLDER | os.O_NOFOLLOW, dir_fd=above)
        except OSError as error:
            if error.errno in _NO_FOLDER:
                raise OSError(
                    error.errno, f"{part} in it is no folder, or a link to one, which is not followed"
                ) from None
            raise
        finally:
            os.close(above)
    return descriptor


def folder_fault(folder: str) -> str | None:
    """Why no files can be made in `folder`, which need not be there yet; None where they can."""
    path = next(each for each in (Path(folder), *Path(folder).parents) if each.exists())
    if not path.is_dir():
        return f"{path} is no folder"
    return None if os.access(path, os.W_OK | os.X_OK) else f"no permission to write to {path}"


def flaw_of(saved: SavedFile) -> str | None:
    """What is wrong with the file or object that was saved so; None where it is what it was."""
    place = ObjectUrl(saved.file) if is_object_url(saved.file) else Path(saved.file)
    try:
        with place.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size != saved.bytes:
                return f"has {size:,} bytes, and had {saved.bytes:,}"
            file.seek(0)
            is_same = file_digest(file, "sha256").hexdigest() == saved.sha256
    except OSError as error:
        return "is not there" if is_missing(error) else f"cannot be read ({error.strerror})"
    return None if is_same else "holds something else by now (its SHA-256 differs)"
