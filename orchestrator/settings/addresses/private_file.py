"""Files that belong to a ledger and are nobody else's: keys, and what leads to them."""

import os
from pathlib import Path


def write_private_file(path: Path, content: bytes) -> None:
    """Writes `path`, which this user alone may read, whole or not at all. Raises `OSError`."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError:  # a full disk
        beside.unlink(missing_ok=True)
        raise
