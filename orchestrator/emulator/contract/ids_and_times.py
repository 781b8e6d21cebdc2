"""Ids and times as the service writes them; ids are drawn from a seeded generator."""

import random
import string
import uuid
from datetime import UTC, datetime

from orchestrator.units import SECOND_US

ID_ALPHABET = string.ascii_lowercase + string.digits
ID_LENGTH = 14


def job_id(rng: random.Random, *, is_sync: bool = False) -> str:
    """A job's id, `<uuid4>-<region>`, with `sync-` before that of a `/runsync` (as observed)."""
    return f"{'sync-' if is_sync else ''}{uuid.UUID(int=rng.getrandbits(128), version=4)}-u1"


def resource_id(rng: random.Random) -> str:
    """The id of a worker, pod, template, secret or endpoint: 14 lower-case letters and digits."""
    return "".join(rng.choices(ID_ALPHABET, k=ID_LENGTH))


def iso_time(at: int) -> str:
    """`at` (µs) in milliseconds: `2026-01-01T00:00:00.000Z`."""
    return datetime.fromtimestamp(at / SECOND_US, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
