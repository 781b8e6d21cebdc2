"""What befalls a pod by a fault, decided once it is created or started: what chance has in store for it."""

import msgspec

from orchestrator.emulator.contract.faults import Fault, FaultDice
from orchestrator.units import SECOND_US


class PodFate(msgspec.Struct, frozen=True, kw_only=True):
    """Of one pod, from its creation or its start on. Times are microseconds; None: that never happens."""

    is_stuck: bool = False
    """Whether it stays PROVISIONING."""
    is_mute: bool = False
    """Whether nothing ever listens at its ports."""
    fails_at: int | None = None
    """When it is in ERROR."""
    vanishes_at: int | None = None
    """When it is gone, as if somebody had terminated it."""

    def has_failed(self, now: int) -> bool:
        """Whether it is in ERROR by now."""
        return self.fails_at is not None and self.fails_at <= now

    def has_vanished(self, now: int) -> bool:
        """Whether it is gone by now."""
        return self.vanishes_at is not None and self.vanishes_at <= now


def drawn_fate(dice: FaultDice, now: int) -> PodFate:
    """The fate of a pod that begins now."""

    def at(fault: Fault) -> int | None:
        if not dice.strikes(fault):
            return None
        return now + round(dice.share(fault) * dice.faults.pod_ends_after_s * SECOND_US)

    return PodFate(
        is_stuck=dice.strikes(Fault.STUCK_POD),
        is_mute=dice.strikes(Fault.MUTE_POD),
        fails_at=at(Fault.FAILED_POD),
        vanishes_at=at(Fault.VANISHED_POD),
    )
