"""Commands that print for as long as somebody reads."""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from orchestrator.cli.framework.crash_reports import leading_failure
from orchestrator.cli.output import streams

T = TypeVar("T")

LOOK_S: Final = 0.5
"""How often to see whether anybody still reads, while there is nothing to write."""


async def while_read(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns. Raises what it raises, and `ReaderLeftError` once nobody reads standard output any more."""
    import anyio

    async def leave_when_nobody_reads() -> None:
        while not streams.has_reader_left():  # noqa: ASYNC110  the system has no event for it
            await anyio.sleep(LOOK_S)
        raise streams.ReaderLeftError

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(leave_when_nobody_reads)
            result = await work()
            group.cancel_scope.cancel()
    except BaseExceptionGroup as failures:
        raise leading_failure(failures) from None
    return result
