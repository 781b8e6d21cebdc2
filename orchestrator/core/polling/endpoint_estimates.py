"""What a process has found out about an endpoint and leaves to those who come later, or look while nobody works.

Times are microseconds.
"""

import msgspec

from orchestrator.core.polling.result_retention import believed_us


class Learned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was found out last."""

    time_scale: float = 1.0
    """How much faster than ours the service's time runs: that of an emulator may."""

    counted_on_us: int | None = None
    """For no longer results are counted on, in our time, whatever was agreed; None where nothing was found out."""

    refused: tuple[int, str] | None = None
    """Since when submissions were refused for so long that going on was pointless, and why; None once one was accepted.
    """

    refused_status: int | None = None
    """The status of the answers that refused them."""

    def here_us(self, there_us: int) -> int:
        """How long a time of the service's lasts here."""
        return there_us if self.time_scale == 1.0 else round(there_us / self.time_scale)

    def retention_us(self, agreed_us: int) -> int:
        """For how long results may be counted on that the service is to keep for `agreed_us` of its time."""
        return believed_us(self.here_us(agreed_us), self.counted_on_us)
