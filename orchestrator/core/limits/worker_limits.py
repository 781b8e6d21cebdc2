"""The dynamic rule of the limits (contract, Limits): running workers times `requests_per_worker`, where that is more.

The service counts the workers that run at the moment of a request; we know those of our latest look at `/health`. So a
higher limit is used slowly, and given up at once: when fewer workers run, when nothing is known of them any more, and
when a request is answered 429 all the same.

Which workers the service counts as running is not said. A batch that the limits hold back keeps few of them busy, so
idle ones are counted, too, until a 429 says that the service does not.
"""

from typing import Final

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, REQUESTS_MAX, Limit, Operation
from orchestrator.core.limits.stray_refusals import TOLERATED

RULED: Final = frozenset({Operation.RUN, Operation.RUNSYNC, Operation.STATUS, Operation.CANCEL})
"""What the rule is applied to: the operations of a batch that have a base limit in the contract."""

RAISE_SHARE: Final = 0.1
"""By how much of itself a limit grows from one look at the workers to the next, at most."""

LOOK_EVERY_S: Final = 5.0
"""How often `/health` is read; its own limit is kept besides."""

UNKNOWN_US_MAX: Final = 15_000_000
"""For how long the latest number of workers holds while `/health` gives none."""


def is_throttled(sent: int, throttled: int, stray: float) -> bool:
    """Whether of `sent` requests more were answered 429 than happens whatever is sent: a share of `stray`, or a few."""
    return throttled > (2 * stray + TOLERATED) * sent


class WorkerLimits:
    """What the rule makes of the contract's limits at one endpoint. Times are arguments (microseconds UTC)."""

    def __init__(self, requests_per_worker: int) -> None:
        self._per_worker = requests_per_worker
        self._requests = {operation: CONTRACT_LIMITS[operation].requests for operation in RULED}
        self._looked_at: int | None = None
        self._idle_count = True

    def observe(self, now: int, busy: int | None, *, idle: int = 0, throttled: bool) -> None:
        """A look at the workers, or one that told nothing (`busy` is None). `throttled`: too many 429s since then."""
        if throttled and self._is_raised():
            self._idle_count = False
        up = None if busy is None else busy + (idle if self._idle_count else 0)
        if up is not None:
            self._looked_at = now
        elif self._looked_at is None or now - self._looked_at > UNKNOWN_US_MAX:
            up = 0
        if throttled:
            up = 0
        if up is not None:
            self._follow(up * self._per_worker)

    def _is_raised(self) -> bool:
        return any(requests > CONTRACT_LIMITS[operation].requests for operation, requests in self._requests.items())

    def _follow(self, allowed: int) -> None:
        for operation, requests in self._requests.items():
            grown = min(allowed, requests + max(1, int(requests * RAISE_SHARE)), REQUESTS_MAX)
            self._requests[operation] = max(CONTRACT_LIMITS[operation].requests, grown)

    @property
    def limits(self) -> dict[Operation, Limit]:
        """The limits in force, never below the contract's."""
        return {
            operation: Limit(requests, CONTRACT_LIMITS[operation].window_s, CONTRACT_LIMITS[operation].concurrent)
            for operation, requests in self._requests.items()
        }
