"""Removes a run of which nothing is kept any longer, unless somebody works on it.

What a crash cuts short the next open of the ledger finishes: a run is first taken back whole, and is none for anybody
from then on.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from orchestrator.errors import IntakeBusyError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.intakes import Hold


async def remove_run(
    ledger: Ledger,
    run: int,
    name: str,
    *,
    give_up: Callable[[], Awaitable[bool]],
    look_again: Callable[[int], Awaitable[None]],
    hold: Hold,
) -> None:
    """Removes all that is left of the run of that number and name once `give_up` has made it none; where it says False,
    or somebody takes in for the run, nothing is removed.

    `look_again` tells this process that there is no such run any more, and `hold` keeps others from taking in for it
    meanwhile. Raises `StorageError`.
    """
    with suppress(IntakeBusyError):
        async with hold(name):
            if await give_up():
                await look_again(run)
                await ledger.runs.removals.clear(name)
