"""A pod that is paid, for those who look at a ledger: what for, since when, and whether somebody should see to it."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.pods.pod_lease import LeaseState, PodLease
from orchestrator.units import MINUTE_US

ENDING_US_MAX: Final = 3 * MINUTE_US
"""One that is to end and is there for longer than that does not end by itself."""

IDLE_US_MAX: Final = 10 * MINUTE_US
"""One that is ready for longer than that, while nothing of its run is at any pod, is paid for nothing."""


class PodTrouble(StrEnum):
    """Why somebody should see to a pod."""

    LEFT = "left"
    """Nobody is at work who would end it."""

    STAYS = "stays"
    """It was to end, and did not."""

    IDLE = "idle"
    """It has nothing to do."""


TROUBLE_SENTENCES: Final = {
    PodTrouble.LEFT: "the pod is still there, and nobody is at work who ends it: it is paid",
    PodTrouble.STAYS: "the pod could not be ended so far: it is paid",
    PodTrouble.IDLE: "the pod has nothing to do: it is paid",
}
"""In a sentence."""


class PaidPod(msgspec.Struct, frozen=True, kw_only=True):
    """One pod. Times are microseconds UTC."""

    name: str
    pod: str | None
    """Its id; None where it is not known whether it was made."""

    run: str
    """The name of the run that it is for."""

    since: int
    per_hour: float
    ending_since: int | None = None
    ready_since: int | None = None
    is_busy: bool = False
    """Whether jobs of its run are at its pods."""

    @property
    def shown(self) -> str:
        """What people know it by."""
        return self.pod or self.name

    def trouble(self, now: int, *, is_worked_on: bool) -> PodTrouble | None:
        """Why somebody should see to it; None where all goes as it should."""
        if not is_worked_on:
            return PodTrouble.LEFT
        if self.ending_since is not None:
            return PodTrouble.STAYS if now > self.ending_since + ENDING_US_MAX else None
        is_idle = self.ready_since is not None and not self.is_busy and now > self.ready_since + IDLE_US_MAX
        return PodTrouble.IDLE if is_idle else None


def paid_for_nothing(pods: Iterable[PaidPod], now: int) -> str | None:
    """That one of these is paid though somebody works who should see to it, and which, in a sentence; None where all
    goes as it should.
    """
    for each in pods:
        if (trouble := each.trouble(now, is_worked_on=True)) is not None:
            return f"{TROUBLE_SENTENCES[trouble]} ({each.shown})"
    return None


def paid_pod(lease: PodLease, run: str, *, at_service: int) -> PaidPod:
    """The pod of `lease`, which is open; its `run` has so many jobs at pods."""
    return PaidPod(
        name=lease.name,
        pod=lease.pod,
        run=run,
        since=lease.wanted_at if lease.began_at is None else lease.began_at,
        per_hour=lease.per_hour,
        ending_since=lease.ending_at,
        ready_since=lease.ready_at if lease.state is LeaseState.READY else None,
        is_busy=at_service > 0,
    )
