"""One dispatcher for each ledger: an OS lock on `LEDGER.lock`.

The lock is the kernel's, so a dead holder's is free at once. The process id and time in the file are text for people.
This is the one place that decides who may work on a ledger.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from orchestrator import declared
from orchestrator.errors import LedgerBusyError, UsageError

NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "9p", "afs", "ceph"})
"""File systems on which neither the lock nor SQLite's write-ahead log can be trusted."""

LOCK_TRIES: Final = 5
LOCK_PAUSE_S: Final = 0.02

MOUNTS: Final = Path("/proc/self/mounts")


@contextmanager
def dispatcher_lock(ledger: Path, *, now: int) -> Iterator[None]:
    """Holds the ledger's lock while the block runs.

    Raises `LedgerBusyError`, which says who holds it, and `UsageError` on a network file system or an unusable folder.
    """
    path = _lock_of(ledger)
    refuse_network_file_system(path.parent)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        message = f"{path}: cannot be written ({error.strerror}); is the folder there and writable, and the file, too?"
        raise UsageError(message) from error
    try:
        if not _locked(descriptor):
            raise LedgerBusyError(_held_by(ledger, os.pread(descriptor, 200, 0)))
        since = datetime.fromtimestamp(now / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        with suppress(OSError):  # a full disk: the lock holds without its text
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"process {os.getpid()} since {since}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _lock_of(ledger: Path) -> Path:
    """Where the lock is: beside the file itself, so that all links to one ledger share one lock."""
    ledger = Path(os.path.realpath(ledger))  # unlike `resolve`, it takes links in a circle: opening says so then
    return ledger.with_name(ledger.name + ".lock")


def _locked(descriptor: int) -> bool:
    """Takes the lock; a few tries, since `holder` holds it for a moment when somebody looks."""
    for _ in range(LOCK_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(LOCK_PAUSE_S)
        else:
            return True
    return False


def holder(ledger: Path) -> str | None:
    """Who holds the ledger's lock now, as text for people; None if nobody does."""
    try:
        descriptor = os.open(_lock_of(ledger), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, 200, 0).decode(errors="replace").strip() or "another process"
    finally:
        os.close(descriptor)
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


def _held_by(ledger: Path, text: bytes) -> str:
    holder = text.decode(errors="replace").strip() or "another process"
    return f"{ledger}: {holder} is working on this ledger; wait for it, stop it, or use another {declared.LEDGER}"


def refuse_network_file_system(folder: Path, *, mounts: Path = MOUNTS) -> None:
    """Raises `UsageError` if `folder` is on a network file system. Where the system does not tell, it passes."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    kind = _file_system_of(folder.resolve(), lines)
    if kind in NETWORK_FILE_SYSTEMS:
        raise UsageError(f"{folder}: a ledger on a network file system ({kind}) is not safe; put it on a local disk")


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
