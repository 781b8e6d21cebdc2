"""Uploads in parts that nobody will complete: a store keeps their parts, unseen, and has them paid for.

Each upload of ours is noted in a file, which its process has locked, in `LEDGER.uploads/`. A file that is not locked is
of a process that was killed, and whoever writes to a store next aborts its upload. The note is there before the upload.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_SUFFIX: Final = ".json"

Abort = Callable[[str, str | None, int], None]
"""Aborts the upload to a URL by its id, or where that is not known, those that began about then, in nanoseconds UTC.
Raises `OSError`.
"""


class UploadNote:
    """That an upload goes on: in a file of `folder`, until it has ended."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{uuid.uuid4().hex}{_SUFFIX}"
        new = self._path.with_suffix(".new")
        self._url = url
        self._file: BinaryIO = new.open("wb")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._put({"url": url})
        new.rename(self._path)  # locked before anybody looks for it

    def began(self, upload: str) -> None:
        """The store calls it so."""
        self._put({"url": self._url, "upload": upload})

    def _put(self, note: dict[str, str]) -> None:
        self._file.seek(0)
        self._file.write(json.dumps(note).encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def ended(self) -> None:
        """It is complete, or aborted."""
        self._path.unlink(missing_ok=True)
        self._file.close()
        with suppress(OSError):
            self._path.parent.rmdir()  # where this was the last


def abort_leftovers(folder: Path, abort: Abort) -> int:
    """Aborts what processes have left that are gone; returns how many uploads that were. What cannot be aborted now is
    tried again the next time.
    """
    aborted = 0
    for path in sorted(folder.glob(f"*{_SUFFIX}")):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                note = json.loads(file.read())
            except ValueError:  # of a process that was killed while it was written: nothing had begun
                note = {}
            if "url" in note:
                abort(note["url"], note.get("upload"), os.fstat(file.fileno()).st_mtime_ns)
                aborted += 1
            path.unlink()
    with suppress(OSError):
        folder.rmdir()
    return aborted
