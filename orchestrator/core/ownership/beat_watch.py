"""When a process that waits for another one's end may take its place.

See `core.ownership.lease`: who watches waits longer than an owner trusts itself, by its own clock alone.
"""

from typing import Final, NamedTuple

from orchestrator.core.ownership.lease import TRUST_US
from orchestrator.units import SECOND_US

SILENCE_US: Final = TRUST_US + 1 * SECOND_US
"""So long an owner's beat must have stood still. What an elapsed clock may be off in that time is far less than the
difference to `TRUST_US`."""


class Beat(NamedTuple):
    """What a ledger says of its owner: which process it is, and how often that has beaten."""

    owner: int
    number: int


class BeatWatch:
    """Of one ledger, by one process that does not own it."""

    def __init__(self) -> None:
        self._seen: Beat | None = None
        self._since = 0

    def saw(self, beat: Beat, received_at: int) -> None:
        """That is what the ledger says; the answer came at `received_at`."""
        if beat != self._seen:
            self._seen, self._since = beat, received_at

    def silent(self, at: int) -> Beat | None:
        """The beat that has stood still for so long that a bid may be made for it; None while there is none."""
        return self._seen if self._seen is not None and at - self._since >= SILENCE_US else None
