"""How many pods are to be asked for now: another one takes the place of one that failed, within bounds.

Pods that fail cost money and bring nothing, so each failure in an hour doubles the pause before the next one, and after
some of them there is none before the hour is over.
"""

from collections.abc import Collection
from typing import Final

from orchestrator.core.pods.pod_lease import PodLease
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US

PAUSE_US: Final = 15 * SECOND_US
PAUSE_US_MAX: Final = 10 * MINUTE_US
FAILURES_ALLOWED: Final = 3
"""In an hour so many more may fail than the run wants."""


def demand(count: int, leases: Collection[PodLease], now: int) -> int:
    """How many more pods a run is to get now that wants `count`, and has these `leases`."""
    missing = count - sum(lease.is_in_use for lease in leases)
    failed = sorted(failed_at for lease in leases if (failed_at := _failed_at(lease)) > now - HOUR_US)
    if missing <= 0 or len(failed) >= count + FAILURES_ALLOWED:
        return 0
    if failed and now < failed[-1] + min(PAUSE_US << (len(failed) - 1), PAUSE_US_MAX):
        return 0
    return missing


def _failed_at(lease: PodLease) -> int:
    """When it failed, as far as is known; 0 where it did not."""
    if not lease.has_failed:
        return 0
    return lease.ending_at or lease.ended_at or lease.wanted_at
