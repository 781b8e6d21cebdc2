"""Which submissions may have left: `LEDGER.sent`, where each is marked just before its last bytes are handed over.

A claim is durable before its request leaves; so after a crash every claimed job might have been sent, though few were.
The marks tell which. They are words of a memory-mapped file and are never synced: what a process wrote there outlives
the process, in the page cache, but not the machine. So they are believed only

- in the boot of the machine in which they were made,
- beside the ledger that they were made for: the same file, with the number that it has noted for them (a copy is
  another file, and a file that took its place has another number), or the same tables of the same server,
- if the file is whole.

Whatever else is found is put aside for a new file, whose floor is the latest submission until then: of those up to the
floor nothing is known. A mark that is overwritten raises the floor to its submission.

Where several processes work on a ledger each has a file of its own: `slot_marks.py`.
"""

import mmap
import os
import secrets
import subprocess
import zlib
from array import array
from collections.abc import Callable, Iterable
from pathlib import Path
from struct import Struct
from typing import Final, Protocol, Self

import msgspec

from orchestrator.settings.addresses.companions import Companion, companion_of

Boot = Callable[[], str | None]
"""What tells this boot of the machine from every other one, as `this_boot` does."""

KEPT: Final = 1 << 15
"""Marks that are kept: those of half a minute at a thousand submissions a second. What is claimed and has not left is
given back after a second, long before the floor can reach it."""

NUMBER_MAX: Final = (1 << 31) - 1

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_BOOT_UUID: Final = ("/usr/sbin/sysctl", "-n", "kern.bootsessionuuid")
"""Where macOS tells the same."""

_SEAL: Final = Struct("=12s40sQQQ")
"""Magic with a version, boot, device, inode, number; a checksum of them follows."""

_MAGIC: Final = b"orch sent 01"
_WORD: Final = 8
_COUNT: Final = 16
_FLOOR: Final = 17
_FIRST: Final = 32
"""Words of the file: how many marks were made, the floor, and the first mark. The seal comes before."""

BYTES: Final = (_FIRST + KEPT) * _WORD


class Seal(msgspec.Struct, frozen=True):
    """What marks are believed by: the boot of the machine, and the ledger and the number in it (0: none).

    `whole` and `part` tell the ledger from every other one, and from a copy: those of a file are its device and its
    inode.
    """

    boot: str
    whole: int
    part: int
    number: int

    def packed(self) -> bytes:
        """As it stands at the beginning of the file."""
        text = _SEAL.pack(_MAGIC, self.boot.encode()[:40], self.whole, self.part, self.number)
        return text + zlib.crc32(text).to_bytes(4, "little")


class Marks:
    """Those of one file, or, where none can be kept, in memory, for this process alone."""

    def __init__(self, words: memoryview, *, counted: int | None = None) -> None:
        """So many were `counted` before the others of these `words` were read, if not as many as they say."""
        self._words = words
        self._count: int = words[_COUNT]
        self._counted = self._count if counted is None else counted

    @classmethod
    def kept(cls, path: Path, seal: Seal, *, latest: int) -> Self | None:
        """Those of the file at `path`, to go on with, or None where they are not to be believed; see `is_believed`."""
        words = _words_at(path, mmap.ACCESS_WRITE)
        marks = None if words is None else cls(words)
        return marks if marks is not None and marks.is_believed(seal, latest=latest) else None

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Those of the file at `path` as they are now, where somebody may go on marking; None where there is none.

        The floor is read last: it is raised before a mark is overwritten.
        """
        words = _words_at(path, mmap.ACCESS_READ)
        if words is None:
            return None
        counted, marks, head = words[_COUNT], words[_FIRST:].tolist(), words[:_FIRST].tolist()
        return cls(memoryview(array("Q", head + marks)), counted=counted)

    @classmethod
    def made(cls, path: Path, seal: Seal, *, floor: int, before: "Marks | None" = None) -> Self:
        """New ones at `path`, in place of what is there: those from `before`, with their floor, or none. Raises
        `OSError` where they cannot be kept.

        The whole file is written, so that a full disk is found now: later it would be a signal in the midst of a mark.
        """
        beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            with beside.open("w+b") as file:
                file.write(_content(seal, floor, before))
                file.flush()
                words = _mapped(file.fileno(), mmap.ACCESS_WRITE)
            beside.replace(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        return cls(words)

    @classmethod
    def unkept(cls, *, floor: int) -> Self:
        """Marks that nobody finds after this process."""
        return cls(memoryview(bytearray(_content(None, floor))).cast("Q"))

    def is_believed(self, seal: Seal, *, latest: int) -> bool:
        """Whether they are those of that `seal`, and whole. `latest` is the ledger's latest submission: there can be
        no mark of a later one.
        """
        expected = seal.packed()
        return bool(seal.number) and self._words.cast("B")[: len(expected)] == expected and self._is_whole(latest)

    def mark(self, submission: int) -> None:
        """`submission` is about to leave. It is marked on return, whatever becomes of the process."""
        words, place = self._words, _FIRST + self._count % KEPT
        if (overwritten := words[place]) > words[_FLOOR]:
            words[_FLOOR] = overwritten
        words[place] = submission
        self._count += 1
        words[_COUNT] = self._count

    def never_left(self, submissions: Iterable[int]) -> frozenset[int]:
        """Those of `submissions` that provably never left."""
        found = [each for each in submissions if each > self._words[_FLOOR]]
        return frozenset(found).difference(self._words[_FIRST:]) if found else frozenset()

    def marked(self) -> bytes:
        """All that tells what was marked: without the seal."""
        return self._words[_COUNT:].tobytes()

    def _is_whole(self, latest: int) -> bool:
        """Whether there are as many marks as were made, all of submissions that the ledger can have made.

        A kill may come between a mark and its count.
        """
        marks = self._words[_FIRST:].tolist()
        found = len(marks) - marks.count(0)
        return min(self._counted, KEPT) <= found <= self._count + 1 and max(marks) <= latest


class SentMarks(Protocol):
    """The marks that a process makes, and what it knows by its own and by those of others."""

    @property
    def own(self) -> Marks:
        """Those that it makes."""

    @property
    def unkept(self) -> str | None:
        """Why they are not kept, if so."""

    async def never_left(self, submissions: Iterable[int]) -> frozenset[int]:
        """Those of `submissions` that provably never left, whoever claimed them. They are of processes that cannot send
        any more, and of this one.
        """


class SoleMarks(msgspec.Struct, frozen=True):
    """Those of a ledger on which one process works at a time: it goes on with the marks of the one before."""

    own: Marks
    unkept: str | None

    async def never_left(self, submissions: Iterable[int]) -> frozenset[int]:
        """By its own, which are those of all."""
        return self.own.never_left(submissions)


class MarksHome(Protocol):
    """What the marks of a ledger need of the file in which that is."""

    async def identity(self) -> tuple[int, int]:
        """What tells it from every other one, and from a copy."""

    async def number(self) -> int:
        """The number that was noted in it for its marks; 0: none."""

    async def set_number(self, number: int) -> None:
        """Notes another one, 31 bits at most."""


async def sole_marks_of(ledger: Path, home: MarksHome, boot: str | None, *, latest: int) -> SoleMarks:
    """The marks of earlier processes, or new ones where those cannot be believed.

    `latest` is the ledger's latest submission. The ledger notes the number of new ones before anything is claimed; 0
    where they cannot be kept, so that no later process believes an older file.
    """
    number, unkept = 0, None
    marks = Marks.unkept(floor=latest)
    if boot is not None:
        path, which = companion_of(ledger, Companion.SENT_MARKS), await home.identity()
        kept = Marks.kept(path, Seal(boot, *which, await home.number()), latest=latest)
        if kept is not None:
            return SoleMarks(kept, None)
        try:
            number = new_number()
            marks = Marks.made(path, Seal(boot, *which, number), floor=latest)
        except OSError as error:
            number, unkept = 0, not_kept(path, error)
    await home.set_number(number)
    return SoleMarks(marks, unkept)


def not_kept(path: Path, error: OSError) -> str:
    """Why marks are not kept at `path`, as text for people."""
    return f"{path} cannot be kept ({error.strerror})"


def new_number() -> int:
    """The number of a new file of marks."""
    return secrets.randbelow(NUMBER_MAX) + 1


def this_boot(boot_id: Path = BOOT_ID) -> str | None:
    """What tells this boot of the machine from every other one; None where the system does not say."""
    try:
        return boot_id.read_text(encoding="ascii").strip() or None
    except OSError:
        pass
    try:
        told = subprocess.run(_BOOT_UUID, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603  ours
    except (OSError, subprocess.SubprocessError):
        return None
    return told.stdout.strip() or None


def _content(seal: Seal | None, floor: int, before: Marks | None = None) -> bytes:
    """A file with the marks from `before`, or without marks."""
    head = bytearray(_FIRST * _WORD)
    words = memoryview(head).cast("Q")
    words[_FLOOR] = floor
    if seal is not None:
        packed = seal.packed()
        head[: len(packed)] = packed
    return bytes(head) + bytes(KEPT * _WORD) if before is None else bytes(head[: _COUNT * _WORD]) + before.marked()


def _words_at(path: Path, access: int) -> memoryview | None:
    """The words of the file at `path`; None where there is none of ours."""
    try:
        with path.open("r+b" if access == mmap.ACCESS_WRITE else "rb") as file:
            return _mapped(file.fileno(), access) if os.fstat(file.fileno()).st_size == BYTES else None
    except OSError:
        return None


def _mapped(descriptor: int, access: int) -> memoryview:
    """The words of a file, shared with whoever opens it later."""
    return memoryview(mmap.mmap(descriptor, BYTES, access=access)).cast("Q")
