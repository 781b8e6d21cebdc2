"""One dispatcher for each ledger, and one intake at a time for each of its runs: OS locks on files beside it.

The locks are the kernel's, so a dead holder's is free at once. The process id and time in the files are text for
people. This is the one place that decides who may work on a ledger, and who takes in for which run.
"""

import asyncio
import fcntl
import glob
import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orchestrator.errors import IntakeBusyError, LedgerBusyError, UsageError
from orchestrator.ledger.holder_text import left_behind, process_name, since_then, who_and_since
from orchestrator.settings.addresses.companions import Companion, companion_of, real_file
from orchestrator.settings.addresses.ledger_address import LedgerAddress

NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ceph"})
"""File systems on which neither the lock nor SQLite's write-ahead log can be trusted."""

DIGEST_CHARS: Final = 16
"""How much of the digest of a run's name tells it: the name itself may be longer than that of a file."""

SIGNATURE_BYTES_MAX: Final = 1_000
"""The text in a lock: a run's name takes most of it."""

LOCK_TRIES: Final = 5
LOCK_PAUSE_S: Final = 0.02

MOUNTS: Final = Path("/proc/self/mounts")

_loops: Final[dict[tuple[int, int], asyncio.AbstractEventLoop]] = {}
"""The event loops in which this process holds locks, by their files: nobody else can tell whether these still run."""


@contextmanager
def dispatcher_lock(ledger: Path, *, now: int, doing: str = "") -> Iterator[None]:
    """Holds the ledger's lock while the block runs; `doing` is for those who ask what its holder does.

    Raises `LedgerBusyError`, which says who holds it, and `UsageError` on a network file system or an unusable folder,
    and where it is held by a part of this process that has ended (see `refuse_abandoned_file`).
    """
    path = companion_of(ledger, Companion.LOCK)
    refuse_network_file_system(path.parent)
    with _opened(path) as descriptor:
        if not _locked(descriptor):
            refuse_abandoned_file(ledger)
            raise LedgerBusyError(_held_by(ledger, descriptor))
        _sign(descriptor, now, doing)
        _forget_dead_intakes(ledger)
        with _known(descriptor):
            yield


@contextmanager
def intake_lock(ledger: Path, run: str, *, now: int) -> Iterator[None]:
    """Holds the right to take rows in for the run called `run` while the block runs, in this process or another.

    It is a file of its own, which goes with its holder. Raises `IntakeBusyError`, which says who takes in.
    """
    path = companion_of(ledger, Companion.INTAKES + hashlib.sha256(os.fsencode(run)).hexdigest()[:DIGEST_CHARS])
    while True:
        with _opened(path) as descriptor:
            if not lock_if_free(descriptor):
                _refuse_left(path, f"no rows can be read for the run {run!r}:")
                raise IntakeBusyError(f"{_text(descriptor)} is reading rows for the run {run!r}")
            if not _is_at(path, descriptor):
                continue  # its last holder has removed it after we had opened it: what is there now is another one
            _sign(descriptor, now)
            try:
                with _known(descriptor):
                    yield
            finally:
                if _is_at(path, descriptor):
                    path.unlink()
            return


@contextmanager
def _known(descriptor: int) -> Iterator[None]:
    """It is known in which event loop this process holds a lock."""
    found = os.fstat(descriptor)
    key = found.st_dev, found.st_ino
    try:
        _loops[key] = asyncio.get_running_loop()
    except RuntimeError:
        _loops.pop(key, None)  # held by what does not depend on a loop
    try:
        yield
    finally:
        _loops.pop(key, None)


def is_file_locked_here(ledger: Path) -> bool:
    """Whether it is this very process that holds the ledger's lock."""
    return _loop_of(companion_of(ledger, Companion.LOCK)) is not None


def refuse_abandoned_file(ledger: Path) -> None:
    """Raises `UsageError` where this process holds the ledger's lock in a closed event loop; see `left_behind`."""
    _refuse_left(companion_of(ledger, Companion.LOCK), f"{ledger}:")


def _refuse_left(path: Path, what: str) -> None:
    loop = _loop_of(path)
    if loop is not None and loop.is_closed():
        raise left_behind(what)


def _loop_of(path: Path) -> asyncio.AbstractEventLoop | None:
    """That in which this process holds the lock at `path`; None where it does not."""
    try:
        found = path.stat()
        is_ours = path.read_bytes().startswith(f"process {os.getpid()} ".encode())
    except OSError:
        return None
    return _loops.get((found.st_dev, found.st_ino)) if is_ours else None


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"{path}: cannot be written ({error.strerror}); is the folder there and writable, and the file, too?"
        raise UsageError(message) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _sign(descriptor: int, now: int, doing: str = "") -> None:
    text = since_then(process_name(doing), now)
    with suppress(OSError):  # a full disk: the lock holds without its text
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{text}\n".encode(), 0)


def _text(descriptor: int) -> str:
    """Who holds a lock, for people."""
    return os.pread(descriptor, SIGNATURE_BYTES_MAX, 0).decode(errors="replace").strip() or "another process"


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is the one at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _forget_dead_intakes(ledger: Path) -> None:
    """Removes the locks that killed processes have left."""
    real = real_file(ledger)
    for path in real.parent.glob(glob.escape(real.name + Companion.INTAKES) + "*"):
        with suppress(OSError, UsageError), _opened(path) as descriptor:
            if lock_if_free(descriptor) and _is_at(path, descriptor):
                path.unlink()


def _locked(descriptor: int) -> bool:
    """Takes the lock; a few tries, since `holder` holds it for a moment when somebody looks."""
    for _ in range(LOCK_TRIES):
        if lock_if_free(descriptor):
            return True
        time.sleep(LOCK_PAUSE_S)
    return False


def lock_if_free(descriptor: int) -> bool:
    """Takes the lock of an open file if nobody has it; whether it did. It is let go with the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def holder(ledger: LedgerAddress) -> str | None:
    """Who holds the ledger's lock now, as text for people; None if nobody does."""
    try:
        descriptor = os.open(companion_of(ledger, Companion.LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _text(descriptor)
    finally:
        os.close(descriptor)
    return None


def locked_since(ledger: LedgerAddress) -> int | None:
    """When the ledger's lock was last taken (microseconds UTC), by its text; None where that does not tell."""
    try:
        return who_and_since(companion_of(ledger, Companion.LOCK).read_text())[1]
    except (OSError, ValueError):
        return None


def refuse_second_name(ledger: Path) -> None:
    """Raises `UsageError` for a ledger that has hard links.

    Lock, key and marks lie beside its name, and so does SQLite's log: under another name a second process would work
    beside the first one, with a log of its own. (A symbolic link is no second name: what it leads to is one file.)
    """
    names = ledger.stat().st_nlink
    if names > 1 and ledger.is_file():
        raise UsageError(
            f"{ledger}: this file has {names} names (hard links), and two processes could work on it at once; remove "
            "the others, or turn this one into a copy of its own while nobody works on it (cp, then mv)"
        )


def _held_by(ledger: Path, descriptor: int) -> str:
    holder = _text(descriptor)
    return f"{ledger}: {holder} is working on this ledger; wait for it, stop it, or use another <setting ledger>"


def refuse_network_file_system(folder: Path, *, mounts: Path = MOUNTS) -> None:
    """Raises `UsageError` if `folder` is on a network file system. Where the system does not tell, it passes."""
    if (kind := network_file_system(folder, mounts=mounts)) is not None:
        raise UsageError(f"{folder}: a ledger on a network file system ({kind}) is not safe; put it on a local disk")


def network_file_system(folder: Path, *, mounts: Path = MOUNTS) -> str | None:
    """What kind of network file system `folder` is on; None for none, and where the system does not tell."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    kind = _file_system_of(folder.resolve(), lines)
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def _file_system_of(folder: Path, mounts: list[str]) -> str:
    """The type of the mount with the longest path above `folder`; of several at one place (autofs), the last counts."""
    best, kind = -1, ""
    for line in mounts:
        fields = line.split()
        if len(fields) < 3:  # noqa: PLR2004  device, mount point, type
            continue
        point = Path(fields[1].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), fields[2]
    return kind
