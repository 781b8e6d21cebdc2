"""Names that the service gives to things, drawn from a seeded generator."""

import random
import string
import uuid

WORKER_ID_ALPHABET = string.ascii_lowercase + string.digits
WORKER_ID_LENGTH = 14


def job_id(rng: random.Random, *, is_sync: bool = False) -> str:
    """A job's id, `<uuid4>-<region>`, with `sync-` before that of a `/runsync` (as observed)."""
    return f"{'sync-' if is_sync else ''}{uuid.UUID(int=rng.getrandbits(128), version=4)}-u1"


def worker_id(rng: random.Random) -> str:
    """A worker's id: 14 lower-case letters and digits."""
    return "".join(rng.choices(WORKER_ID_ALPHABET, k=WORKER_ID_LENGTH))


def resource_id(rng: random.Random) -> str:
    """The id of a template, secret or endpoint: like a worker's."""
    return worker_id(rng)
