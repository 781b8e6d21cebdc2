"""What a process goes by that does not have a ledger to itself, before it sends a message: whether anybody works there,
and for how long the message is its own.
"""

from typing import Final

from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import STALE_US
from orchestrator.units import MINUTE_US

CLAIMED_US: Final = 3 * MINUTE_US
"""So long nobody else sends what is claimed: longer than any sending takes."""


async def silent_since(ledger: Ledger) -> int | None:
    """When somebody who worked on the ledger was heard of last (microseconds UTC); None where somebody works now, or
    has just begun to.
    """
    heard_at = max((beat.beaten_at for beat in await ledger.runs.heartbeats.all()), default=0)
    if await ledger.holder() is None:
        return heard_at
    heard_at = max(heard_at, await ledger.taken_at() or 0)
    return None if ledger.now() - heard_at <= STALE_US else heard_at
