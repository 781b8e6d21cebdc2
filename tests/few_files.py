"""A process that can open no more files."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import anyio.lowlevel

SPARE = 16


@contextmanager
def no_file_left() -> Iterator[None]:
    """Every file that the process may open is open while the block runs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = [os.open(os.devnull, os.O_RDONLY)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(opened) + SPARE, soft), hard))
    try:
        while True:
            try:
                opened.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                break
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def settled() -> None:
    """Lets the event loop close what it is about to: uvloop needs a few turns for a connection."""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
