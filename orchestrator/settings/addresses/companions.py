"""The files and folders that belong to a ledger: which there are, and where each is."""

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Companion(StrEnum):
    """What is added to the ledger's name."""

    WRITE_AHEAD_LOG = "-wal"
    SHARED_MEMORY = "-shm"
    JOURNAL = "-journal"
    """These are SQLite's own."""

    LOCK = ".lock"
    """Whoever works on it holds this one."""

    INTAKES = ".intake-"
    """Whoever takes in for a run holds one that begins so."""

    WEBHOOK_KEY = ".key"
    SENT_MARKS = ".sent"
    POSTED_FILES = ".files"
    """A folder: what programs have posted to the Batch API."""

    DASHBOARD_KEYS = ".dashboard"
    """A folder: what the dashboard knows people by."""

    UPLOADS = ".uploads"
    """A folder: which uploads to stores are under way."""

    TRACES = ".traces"
    """How far traces were sent."""

    LOG = ".log"
    """What a run in the background says."""


def real_file(ledger: Path) -> Path:
    """The file itself, where its path is a link."""
    return Path(os.path.realpath(ledger))  # unlike `resolve`, it takes links in a circle: opening says so then


def companion_of(ledger: LedgerAddress, companion: str) -> Path:
    """Where that companion is: beside the file itself, so that all links to one ledger share it; of a ledger on a
    server, in the folder in which programs of this user keep their state.
    """
    if isinstance(ledger, LedgerUrl):
        where = "/".join((*(unquote(str(host)) for host in ledger.hosts), ledger.name))
        return state_folder(os.environ) / f"{_UNUSUAL.sub('-', where).strip('-')}{companion}"
    real = real_file(ledger)
    return real.with_name(real.name + companion)


def companion_to_write(ledger: LedgerAddress, companion: str) -> Path:
    """The same for who writes it: the folder of state, where it is in that one, is made. Raises `OSError`."""
    path = companion_of(ledger, companion)
    if isinstance(ledger, LedgerUrl):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def file_identity(ledger: LedgerAddress) -> object:
    """What tells the ledger that is there from one that takes its place; None where there is none."""
    if isinstance(ledger, LedgerUrl):
        return ledger
    try:
        found = ledger.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where programs of this user keep their state: as systemd says, or else as desktops have it."""
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.partition(":")[0])
    return Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "orchestrator"
