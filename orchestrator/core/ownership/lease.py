"""How long a process that owns a ledger may trust that it still does.

Nobody's clock decides about another process: the owner raises a number in the ledger, its *beat*, again and again, and
trusts itself for `TRUST_US` from the moment at which it *began* to raise it. Who watches (`core.ownership.beat_watch`)
waits longer, from the moment at which it has *read* it. So the owner has ceased before its successor begins, whatever
lay between the two moments. Times are those of an elapsed clock, which sees a suspended machine (`clock.ElapsedClock`).
"""

from typing import Final

from orchestrator.units import SECOND_US

BEAT_US: Final = 1 * SECOND_US
"""How often an owner beats."""

TRUST_US: Final = 5 * SECOND_US
"""So long after the beginning of a beat that succeeded its owner trusts itself."""

LATE_US_MAX: Final = 30 * SECOND_US
"""What an owner handed to the network as the last may arrive so long after another process has taken its place: then
the system has given it up."""

SETTLED_US_MIN: Final = 2 * LATE_US_MAX
"""What a process left that did not let go of the ledger is not settled sooner: its requests may still arrive."""

GONE_US: Final = LATE_US_MAX + 60 * SECOND_US
"""So long after its death nothing of a process is under way any more, nor does a usual limit count it."""

PROCESSES_MAX: Final = 64
"""So many processes may work on a ledger, or stand by: each has a slot of its own in the numbers that it gives."""


class Lease:
    """The right to send, of a process that owns a ledger. It lapses without beats; once it has ended it stays so."""

    def __init__(self, begun_at: int) -> None:
        """`begun_at` is when the process began to take it."""
        self._until = begun_at + TRUST_US
        self._has_ended = False

    def beaten(self, begun_at: int) -> None:
        """A beat that began at that time has succeeded: until then nobody else had taken it."""
        self._until = max(self._until, begun_at + TRUST_US)

    def is_good(self, at: int) -> bool:
        """Whether anything may leave `at` that time."""
        return at < self._until and not self._has_ended

    def end(self) -> None:
        """Another process has it, or may have it: what was claimed under it is for that one, whatever comes later."""
        self._has_ended = True
