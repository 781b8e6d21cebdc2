"""A connection to the file, and one to a file that can only be read."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from orchestrator.settings.addresses.companions import Companion, companion_of, real_file


def _can_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK)


def connected(path: Path, *, can_write: Callable[[Path], bool] = _can_write, **options: Any) -> sqlite3.Connection:
    """A connection to the file at `path`, as the driver makes it with `options`.

    To read a file that has a write-ahead log SQLite makes others beside it. Where it cannot, it may be told that nobody
    changes the file, and that is so as long as no log is there: of a copy, or on a disk that is read-only.
    """
    fixed = is_fixed(path, can_write)
    address = f"file:{quote(str(path.absolute()))}?immutable=1" if fixed else path
    connection: sqlite3.Connection = sqlite3.connect(address, uri=fixed, **options)
    return connection


def is_fixed(path: Path, can_write: Callable[[Path], bool] = _can_write) -> bool:
    """Whether there is a file that nobody writes, in a folder in which nobody could."""
    real = real_file(path)
    has_log = any(companion_of(path, each).exists() for each in (Companion.WRITE_AHEAD_LOG, Companion.SHARED_MEMORY))
    return real.is_file() and not has_log and not can_write(real.parent)
