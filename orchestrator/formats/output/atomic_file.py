"""A file that appears whole or not at all: written beside its target, synced (fsync) and renamed into place.

Readers of the target see the old content or the new, never a part. What a crash leaves behind is one file beside the
target named `.{name}.{process id}.tmp`, which may be deleted. What cannot be renamed over (a terminal, a pipe,
`/dev/stdout`) is written directly.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Self

from orchestrator.errors import StorageError, UsageError
from orchestrator.settings.run_request import errors_beside
from orchestrator.stores.object_url import Location, ObjectUrl
from orchestrator.units import MIB

BUFFER_BYTES: Final = MIB

_NEW_FILE_MODE: Final = 0o666
"""What any program creates files with; the umask takes away from it."""

_STREAM_PATHS: Final = ("/dev/std", "/dev/fd/", "/proc/")
"""Names of open streams. Behind one may be a plain file (`> out.jsonl`), which still belongs to the shell."""


class Replacement:
    """The coming content of the file `path`, which a symbolic link may lead to.

    Used as a context manager: `write` as often as needed, then `commit`. Leaving without `commit` removes what was
    written and leaves the target as it was. An existing target's mode is kept. Opening raises `UsageError`, writing and
    committing `StorageError`; the target is then as it was. `BrokenPipeError` (nobody reads the pipe) passes through.
    """

    def __init__(self, path: Path, *, mode: int | None = None) -> None:
        """`mode` is what may be done with the file, by whom; None for what may be done with an existing target, or else
        with any new file.
        """
        self.path = path
        self._mode = mode
        self.target = _target(path)
        self._temporary = None if is_stream(path) else _temporary(self.target)
        self._file: BinaryIO | None = None
        self._is_prepared = False
        self.is_in_place = False
        """Whether it has taken its target's place."""

    @property
    def is_stream(self) -> bool:
        """Whether it is written directly: then writing may take as long as its reader likes."""
        return self._temporary is None

    def __enter__(self) -> Self:
        try:
            if self._temporary is None:
                self._file = _open_stream(self.path)
            else:
                self._file = _create(self._temporary, self.target, self._mode)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise UsageError(_unwritable(self.path, error)) from error
        return self

    def write(self, data: bytes) -> None:
        """Adds `data`; it is in the target only after `commit`."""
        try:
            self._opened().write(data)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def prepare(self) -> None:
        """Makes what was written durable, beside the target. Nothing can be written afterwards."""
        if self._is_prepared:
            return
        file = self._opened()
        try:
            file.flush()
            if self._temporary is not None:
                os.fsync(file.fileno())
            file.close()
        except OSError as error:
            raise storage_error(self.path, error) from error
        self._file, self._is_prepared = None, True

    def commit(self) -> None:
        """Puts what was written in the target's place, and sees to it that it stays there."""
        self.prepare()
        try:
            if self._temporary is not None:
                self.put_in_place()
                sync_folder(self.target.parent)
        except OSError as error:
            raise storage_error(self.path, error) from error

    def put_in_place(self) -> None:
        """Renames what was prepared. Raises `OSError`."""
        assert self._temporary is not None
        self._temporary.replace(self.target)
        self.is_in_place = True

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            # Closing writes the buffer out; that this fails says nothing new when the file is thrown away.
            with suppress(OSError):
                self._file.close()
            self._file = None
        if self._temporary is not None and not self.is_in_place:
            self._temporary.unlink(missing_ok=True)

    def _opened(self) -> BinaryIO:
        assert self._file is not None, "written outside of its with block, or after commit"
        return self._file


def check_writable(path: Path) -> None:
    """Finds out whether `path` could be written, by creating and removing the temporary file beside it.

    Raises `UsageError` that says what to do. The target itself is not touched, and a pipe is not opened.
    """
    try:
        if is_stream(path):
            _check_kind(path)
            _check_access(path)
            return
        target = _target(path)
        temporary = _temporary(target)
        _create(temporary, target).close()
        temporary.unlink()
    except OSError as error:
        raise UsageError(_unwritable(path, error)) from error


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))


def same_file(first: Location, second: Location) -> bool:
    """Whether writing the one destroys the other, whichever links lead there. Two streams may well be one terminal."""
    if isinstance(first, ObjectUrl) or isinstance(second, ObjectUrl):
        return first == second
    if _target(first) == _target(second):
        return not first.exists() or first.is_file()
    try:
        return first.samefile(second) and first.is_file()
    except OSError:
        return False


def holds_data(path: Location) -> bool:
    """Whether there is a file at `path` with anything in it. Raises `UsageError` where a store does not say."""
    try:
        return (isinstance(path, ObjectUrl) or path.is_file()) and path.stat().st_size > 0
    except OSError as error:
        if isinstance(path, ObjectUrl) and error.errno != errno.ENOENT:
            raise UsageError(f"{path}: what is there cannot be seen ({error.strerror})") from error
        return False


def is_stream(path: Location) -> bool:
    """Whether `path` is written directly, as it comes: there is nothing to put a file in the place of."""
    if isinstance(path, ObjectUrl):
        return False
    if str(path.absolute()).startswith(_STREAM_PATHS):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _temporary(target: Path) -> Path:
    return target.parent / f".{target.name}.{os.getpid()}.tmp"  # of "/", too, which has no name to replace


NOWHERE: Final = Path(os.devnull)


def errors_for(output: Location) -> Location:
    """Where errors are written whose file is not named: beside the results, and nowhere where these are a stream."""
    return NOWHERE if is_stream(output) else errors_beside(output)


def _open_stream(path: Path) -> BinaryIO:
    # Appending: behind /dev/stdout may be a file that the shell opened with >>. Without waiting: a pipe that nobody
    # reads, or nobody reads any more, would be waited for in vain.
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error
        raise
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "wb", BUFFER_BYTES)


def _create(temporary: Path, target: Path, mode: int | None = None) -> BinaryIO:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if target.exists():
        _check_access(target)
    # In a container every process may have the same id: a leftover of that name is an earlier run's. Removing it and
    # creating anew, never opening what is there, keeps a planted link from being written through.
    temporary.unlink(missing_ok=True)
    is_new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, is_new, _NEW_FILE_MODE if mode is None else mode)
    if mode is None:
        with suppress(FileNotFoundError):
            os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
    return os.fdopen(descriptor, "wb", BUFFER_BYTES)


def sync_folder(folder: Path) -> None:
    """Makes the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_kind(path: Path) -> None:
    mode = path.stat().st_mode
    if stat.S_ISSOCK(mode) or stat.S_ISBLK(mode):
        kind = "socket" if stat.S_ISSOCK(mode) else "disk (a block device)"
        raise UsageError(f"cannot write {path}: it is a {kind}; name a file")


def _check_access(path: Path) -> None:
    # Renaming over a write-protected file would work, but whoever protected it did not mean that.
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _unwritable(path: Path, error: OSError) -> str:
    target = _target(path)
    folder = target.parent
    match error.errno:
        case errno.EISDIR:
            return f"cannot write {path}: it is a folder; name a file in it, for example {path / 'results.jsonl'}"
        case errno.ENOENT:
            return f"cannot write {path}: the folder {folder} does not exist; create it or choose another"
        case errno.ENOTDIR:
            return f"cannot write {path}: {folder} is not a folder; choose another place"
        case errno.EACCES | errno.EPERM:
            closed = target if target.exists() and not os.access(target, os.W_OK) else folder
            return f"cannot write {path}: no permission to write to {closed}; change that or choose another place"
        case errno.EROFS:
            return f"cannot write {path}: {folder} is read-only; choose another place"
        case _:
            return f"cannot write {path}: {error.strerror}; choose another place"


def storage_error(path: Path, error: OSError) -> Exception:
    """That a file cannot be written any more."""
    if isinstance(error, BrokenPipeError):
        return error
    advice = "free space or fix permissions, then give the command again"
    return StorageError(f"cannot write {path}: {error.strerror}; {advice}")
