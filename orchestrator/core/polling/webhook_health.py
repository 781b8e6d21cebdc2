"""Whether webhooks arrive: the share of finished jobs whose webhook came, and how much polling follows from it.

Counted for all jobs in the same way, whoever was faster: each that finished, and each webhook about one that had. So
the share stays right while results are asked for, and shows when webhooks come again.
"""


class WebhookHealth:
    """The share of late, with hysteresis: results are asked for once it falls below a half, and left to webhooks again
    from four fifths on. Where no webhooks are expected at all, `expected` is False and stays so.
    """

    LEAVE = 0.5
    RETURN = 0.8
    ENOUGH = 20
    """Fewer finished jobs than this say nothing."""

    WEIGHT_MAX = 200.0
    """Beyond so many finished jobs all that is known loses half of its weight."""

    def __init__(self, *, expected: bool) -> None:
        self.expected = expected
        self.healthy = expected
        """Whether results are left to webhooks."""

        self._finished = 0.0
        self._arrived = 0.0

    @property
    def share(self) -> float | None:
        """The share of late (0-1); None while too little is known."""
        return None if self._finished < self.ENOUGH else min(1.0, self._arrived / self._finished)

    def observe(self, *, finished: bool, arrived: bool) -> bool:
        """Takes in a finished job, the webhook of one, or both at once; returns whether `healthy` is another now."""
        if not self.expected:
            return False
        self._finished += finished
        self._arrived += arrived
        if self._finished > self.WEIGHT_MAX:
            self._finished /= 2
            self._arrived = min(self._arrived / 2, self._finished)
        share = self.share
        if share is None or (share >= self.LEAVE if self.healthy else share < self.RETURN):
            return False
        self.healthy = not self.healthy
        return True
