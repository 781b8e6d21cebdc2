"""The jobs that a process has claimed and whose step is not written yet, and how much memory their inputs may take."""

from collections.abc import Iterable
from typing import Final

from orchestrator.ledger import Claim
from orchestrator.units import MIB

CLAIMED_BYTES_MAX: Final = 32 * MIB
"""Their inputs come to no more than this, but for the last of them."""


class ClaimedJobs:
    """Claimed jobs, until they are released: until what came of them is written, or they are given back."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._bytes = 0
        self.in_flight: set[int] = set()
        """Those of them that are on their way."""

    def __contains__(self, job: int) -> bool:
        return job in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    @property
    def room_bytes(self) -> int:
        """How many bytes the inputs of further claims may have; none where it is not above zero."""
        return CLAIMED_BYTES_MAX - self._bytes

    def add(self, claims: Iterable[Claim]) -> None:
        """They were claimed."""
        for claim in claims:
            self._sizes[claim.job.id] = size = claim.bytes
            self._bytes += size

    def release(self, job: int) -> None:
        """`job` is neither to be sent nor in flight any more."""
        self.in_flight.discard(job)
        self._bytes -= self._sizes.pop(job)
