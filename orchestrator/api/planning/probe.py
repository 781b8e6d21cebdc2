"""A probe: a few jobs of an input, spread over it, executed as a run of their own to learn what they take."""

from collections.abc import Iterator
from typing import Final

import anyio
from msgspec.structs import replace

from orchestrator.api.foreground.run import run
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import StoppedError
from orchestrator.settings.request_settings import RunRequest

ENDING: Final = "-probe"
"""What is added to a run's name for that of its probe."""


def spread(number: int, rows: int) -> Iterator[int]:
    """The places, from 1, of `number` rows that lie evenly among so many; all, where there are no more."""
    number = min(number, rows)
    return (place * rows // number + rows // (2 * number) + 1 for place in range(number))


async def probed(
    asked: RunRequest,
    number: int,
    *,
    rows: int,
    console: Console,
    dependencies: Dependencies,
    stop: anyio.Event | None,
) -> None:
    """Executes so many of the jobs of `asked`, which has `rows`. The same again goes on with the same ones.

    Raises what `run` raises, and `StoppedError` where it was interrupted.
    """
    chosen = frozenset(spread(number, rows))
    request = replace(
        asked, name=f"{asked.name}{ENDING}", named=True, output=None, errors=None, only_rows=chosen, retry_failed=False
    )
    console.info(f"{request.name}: {len(chosen):,} jobs of {rows:,} are executed to learn of their times")
    summary = await run(request, console, dependencies, stop)
    if summary.interrupted:
        raise StoppedError("the probe was interrupted; the same command goes on with it")
