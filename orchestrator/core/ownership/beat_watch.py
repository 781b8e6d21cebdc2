"""When a process that watches another one may declare it dead.

See `core.ownership.lease`: who watches waits longer than an owner trusts itself, by its own clock alone.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from orchestrator.core.ownership.lease import TRUST_US
from orchestrator.units import SECOND_US

SILENCE_US: Final = TRUST_US + 1 * SECOND_US
"""So long a process's beat must have stood still. What an elapsed clock may be off in that time is far less than the
difference to `TRUST_US`."""


class Beat(NamedTuple):
    """What a ledger says of a process: which one it is, and how often that has beaten."""

    process: int
    number: int


class BeatWatch:
    """Of the processes of one ledger, by one of them or by one that is to become one."""

    def __init__(self) -> None:
        self._since: dict[Beat, int] = {}

    def saw(self, beats: Iterable[Beat], received_at: int) -> None:
        """These are all that the ledger says; the answer came at `received_at`."""
        self._since = {beat: self._since.get(beat, received_at) for beat in beats}

    def silent(self, at: int) -> list[Beat]:
        """The beats that have stood still for so long that their processes may be declared dead."""
        return [beat for beat, since in self._since.items() if at - since >= SILENCE_US]
