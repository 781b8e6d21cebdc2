"""Where the files of an open ledger are, and whether they still are there.

SQLite goes on in a file that was deleted or moved as if nothing had happened, and whoever opens the ledger's path next
finds another one, or none.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

from orchestrator.settings.addresses.companions import Companion, file_identity

FILES: Final = ("", Companion.WRITE_AHEAD_LOG, Companion.SHARED_MEMORY, Companion.LOCK)
"""The files that two processes must have in common."""

OPEN_FILES: Final = Path("/dev/fd")
_F_GETPATH: Final[int | None] = getattr(fcntl, "F_GETPATH", None)
"""How macOS tells the name of an open file."""


class LedgerFiles:
    """The place of the ledger at `path`, whose files are open."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        found = {suffix: file_identity(self._file(suffix)) for suffix in FILES}
        self._known = {suffix: identity for suffix, identity in found.items() if identity is not None}

    def missing(self) -> Path | None:
        """The first of the files that is gone, or another one by now; None where all are in their place."""
        for suffix, identity in self._known.items():
            if file_identity(self._file(suffix)) != identity:
                return self._file(suffix)
        return None

    def lost(self) -> str | None:
        """That one of them is not in its place any more; None where all are."""
        missing = self.missing()
        return None if missing is None else f"{missing} is not in its place any more"

    @property
    def is_whole(self) -> bool:
        """Whether all that SQLite needs is in its place: what is missing, if anything, is ours."""
        return self.is_whole_at(self.path)

    def is_whole_at(self, path: Path) -> bool:
        """Whether the ledger, as it is open, is all at `path`."""
        return all(
            file_identity(path.with_name(path.name + suffix)) == identity
            for suffix, identity in self._known.items()
            if not suffix.startswith(".")
        )

    def moved_to(self) -> Path | None:
        """Where the ledger's own file is now, as far as the system tells; None for one that was deleted."""
        ours = (entry for entry in OPEN_FILES.iterdir() if file_identity(entry) == self._known[""])
        name = next(map(_name_of, ours), None)
        return name if name is not None and file_identity(name) == self._known[""] else None

    def _file(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)


def _name_of(entry: Path) -> Path:
    """The name of an open file, by its entry."""
    if _F_GETPATH is None:
        return entry.readlink()
    return Path(os.fsdecode(fcntl.fcntl(int(entry.name), _F_GETPATH, bytes(1024)).rstrip(b"\0")))
