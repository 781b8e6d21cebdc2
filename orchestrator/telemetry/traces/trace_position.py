"""How far traces were sent: a position in the feed beside the ledger, in a file that only whoever sends them holds.

It is written once what came before was taken. So whoever is killed in between sends the same again, under the same
numbers, and nothing is left out. It is one line of one length, written at once: it cannot be half of one and half of
another.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import lock_if_free
from orchestrator.settings.addresses.companions import Companion, companion_of, companion_to_write
from orchestrator.settings.addresses.ledger_address import LedgerAddress

_DIGITS: Final = 20
_LINE: Final = " ".join([f"{{:0{_DIGITS}d}}"] * 4) + "\n"


class SentUntil(NamedTuple):
    """How far traces were sent."""

    place: int
    """The place in the feed of events."""

    at: int
    """When what stands there happened, microseconds UTC: by that it is known again."""

    flows_until: int
    """When the last flow ended that was told of, microseconds UTC."""

    flow: int
    """Its number: several may have ended at once."""


BEGINNING: Final = SentUntil(0, 0, 0, 0)
"""Before anything that a ledger has."""


class TracePosition:
    """The open file."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path

    def read(self) -> SentUntil | None:
        """What stands in it; None where nothing was sent yet, or it cannot be read."""
        words = os.pread(self._descriptor, len(_LINE.format(*BEGINNING)), 0).split()
        if len(words) != len(SentUntil._fields) or not all(word.isdigit() for word in words):
            return None
        return SentUntil(*map(int, words))

    def write(self, until: SentUntil) -> None:
        """Writes it down. Raises `StorageError`."""
        try:
            os.pwrite(self._descriptor, _LINE.format(*until).encode(), 0)
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror}; spans are sent again from there on") from error


@contextmanager
def trace_position(ledger: LedgerAddress) -> Iterator[TracePosition]:
    """The file of `ledger`, held while the block runs. Raises `UsageError` where another process holds it, or it cannot
    be made.
    """
    path = companion_of(ledger, Companion.TRACES)
    try:
        descriptor = os.open(companion_to_write(ledger, Companion.TRACES), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; how far traces were sent is kept there") from error
    try:
        if not lock_if_free(descriptor):
            raise UsageError(f"{path}: another dashboard of this ledger sends traces already")
        yield TracePosition(descriptor, path)
    finally:
        os.close(descriptor)
