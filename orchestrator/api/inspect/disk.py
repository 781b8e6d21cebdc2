"""How much more may be written to a ledger's disk."""

import glob
import resource
import shutil
from contextlib import suppress
from pathlib import Path


def free_bytes(ledger: Path) -> int | None:
    """What is free on the disk of the file at `ledger`, or what it may still grow by the limit on the size of files
    (`ulimit -f`), if that is less; None where the system does not tell.
    """
    try:
        free = shutil.disk_usage(ledger.resolve().parent).free
    except OSError:
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit == resource.RLIM_INFINITY:
        return free
    largest = 0
    for path in ledger.resolve().parent.glob(glob.escape(ledger.name) + "*"):  # its log beside it may be the larger one
        with suppress(FileNotFoundError):
            largest = max(largest, path.stat().st_size)
    return min(free, max(0, limit - largest))
