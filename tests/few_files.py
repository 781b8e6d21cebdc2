"""A process that can open no more files."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager

import anyio.lowlevel


@contextmanager
def no_file_left() -> Iterator[None]:
    """The process may open no file while the block runs, also where it closes one meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def settled() -> None:
    """Lets the event loop close what it is about to: uvloop needs a few turns for a connection."""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
