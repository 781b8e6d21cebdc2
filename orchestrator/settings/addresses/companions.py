"""The files and folders that belong to a ledger: which there are, and where each is."""

import os
from enum import StrEnum
from pathlib import Path


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


def companion_of(ledger: Path, companion: str) -> Path:
    """Where that companion is: beside the file itself, so that all links to one ledger share it."""
    real = real_file(ledger)
    return real.with_name(real.name + companion)
