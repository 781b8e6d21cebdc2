"""What lies beside a ledger on this machine comes to lie beside another one, which goes on in its place.

Each file is there whole or not at all, and one that is there already is not written anew. So what was cut off half way,
or copied before to try it, is made good by the same call.
"""

import os
import shutil
import stat
from pathlib import Path
from typing import Final

from orchestrator.errors import StorageError, UsageError
from orchestrator.formats.output.atomic_file import Replacement, sync_folder
from orchestrator.settings.addresses.companions import Companion, companion_of, companion_to_write
from orchestrator.settings.addresses.ledger_address import LedgerAddress

COPIED: Final = (
    Companion.WEBHOOK_KEY,
    Companion.POSTED_FILES,
    Companion.DASHBOARD_KEYS,
    Companion.UPLOADS,
    Companion.TRACES,
)
"""What goes along. Locks are held anew, a log is of its process, and what has left is marked beside the one file."""


def companions_copy(source: LedgerAddress, target: LedgerAddress) -> None:
    """Copies what lies beside `source` to `target`, where no ledger counts yet.

    What else is there stays: of files without a row, and of uploads that were cut off, whoever works there disposes.
    Raises `UsageError` where another webhook key is there, or something cannot be written; and `StorageError`.
    """
    for companion in COPIED:
        path, copy = companion_of(source, companion), companion_of(target, companion)
        try:
            if path.exists():
                if companion is Companion.WEBHOOK_KEY:
                    _refuse_other_key(path, copy)
                _copied(path, companion_to_write(target, companion))
                if companion is Companion.DASHBOARD_KEYS:
                    _remove_used(path, copy)
        except OSError as error:
            raise StorageError(
                f"{copy}: cannot be copied from {path} ({error.strerror}); see to that, and give the command again"
            ) from error


def _refuse_other_key(path: Path, copy: Path) -> None:
    if copy.exists() and copy.read_bytes() not in {path.read_bytes(), b""}:
        raise UsageError(
            f"{copy}: this is another webhook key than {path}, by which what is at the service is known; move it away,"
            " and give the command again"
        )


def _copied(path: Path, copy: Path) -> None:
    if path.is_dir():
        copy.mkdir(mode=stat.S_IMODE(path.stat().st_mode), exist_ok=True)
        sync_folder(copy.parent)
        for each in sorted(path.iterdir()):
            _file_copied(each, copy / each.name)
    else:
        _file_copied(path, copy)


def _file_copied(path: Path, copy: Path) -> None:
    found = path.stat()
    if copy.is_file() and _is_same(found, copy.stat()):
        return
    with path.open("rb") as content, Replacement(copy, mode=stat.S_IMODE(found.st_mode)) as coming:
        shutil.copyfileobj(content, coming)
        coming.commit()
    os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))


def _is_same(first: os.stat_result, second: os.stat_result) -> bool:
    """Whether the one was copied from the other: its time is set last."""
    return (first.st_size, first.st_mtime_ns) == (second.st_size, second.st_mtime_ns)


def _remove_used(path: Path, copy: Path) -> None:
    """A link that was used since it was copied before would lead in once more."""
    for each in copy.iterdir():
        if not (path / each.name).exists():
            each.unlink()
