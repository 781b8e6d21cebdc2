"""How long an answer may take to be made."""

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from orchestrator.errors import TookTooLongError


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Ends the block after so long, with `TookTooLongError`."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise TookTooLongError from None
