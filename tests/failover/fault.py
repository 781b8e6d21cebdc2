"""What happens to the machine that owns a ledger, and what may follow from it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tests.failover.machine import Machine
from tests.failover.world import World

SILENCE_S_MAX: Final = 10.0
"""So long nothing may be sent after its owner is gone, however it went."""

HANDED_OVER_S_MAX: Final = 2.0
"""The same where it was asked to stop, beside what its last answers take."""

Act = Callable[[World, Machine], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What `does` happen to the machine that owns the ledger; on return it is over."""

    does: Act
    silence_s_max: float = SILENCE_S_MAX
    """So long nothing may be sent."""

    is_replaced: bool = False
    """Whether another one must own the ledger afterwards."""

    stands_back: bool = False
    """Whether its process takes nothing for a while afterwards: another one begins in its place."""

    says: str = ""
    """What the process of that machine is heard to say of the ledger; else nothing has happened to it."""

    lasts_s: float = 0.0
    """For how long, where others can send meanwhile."""

    weight: float = 1.0
    """How often it is drawn."""
