"""Asks for the URLs by which a service (a dead man's switch) learns that work has begun, has ended well or badly, or
goes on at all.

Of a check at healthchecks.io, and of what imitates it, the URL alone is for a good end, with `/start` and `/fail`
behind it for the others, and `rid` says which start and which end belong together. Others have a URL for each.
"""

import uuid
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

from orchestrator.client.notify.delivery import Outgoing
from orchestrator.core.pipelines.message_text import plain_text

BODY_BYTES_MAX: Final = 10_000
PLAIN_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}

_OF_RUNS: Final = uuid.UUID("6f1a63b1-6a0f-4f0e-9f5e-3f0d8f4f8a52")


def ping_url(url: str, added: str, of: str) -> str:
    """The URL of a check, with what is added to its path, and what tells those apart that overlap."""
    parts = urlsplit(url)
    rid = urlencode({"rid": str(uuid.uuid5(_OF_RUNS, of))})
    query = f"{parts.query}&{rid}" if parts.query else rid
    return urlunsplit((parts.scheme, parts.netloc, f"{parts.path.rstrip('/')}{added}", query, ""))


def ping_body(message: Outgoing) -> bytes:
    """What is kept of it there, for who looks."""
    return plain_text(message.letter).encode()[:BODY_BYTES_MAX]
