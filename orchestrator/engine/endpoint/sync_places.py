"""Whether jobs of one endpoint leave by `/runsync` beside `/run`, and for how long an answer is held there then."""

from collections.abc import Callable

from orchestrator.client.jobs.rate_limiter import RateLimiter
from orchestrator.core.lanes.sync_requests import WAIT_US, WAIT_US_MIN, WHAT_A_CRASH_LOSES, is_worth, longest_hold_us
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.text.durations import rough_duration
from orchestrator.engine.endpoint.estimates import EndpointEstimates


class SyncPlaces:
    """Of one endpoint; the rules are in `core.lanes.sync_requests`. `warn` says when the lane changes, and why."""

    def __init__(self, limiter: RateLimiter, estimates: EndpointEstimates, warn: Callable[[str], None]) -> None:
        self._limiter = limiter
        self._estimates = estimates
        self._warn = warn
        self.are_worth = True
        """Whether jobs that may leave by both lanes were to leave by `/runsync`, too, as it was looked last."""

        self._is_announced = False

    def announce(self) -> None:
        """Says what the lane costs, before it is used for the first time."""
        if not self._is_announced:
            self._is_announced = True
            self._warn(WHAT_A_CRASH_LOSES)

    def look(self) -> None:
        """Finds out whether the places are worth it by now, and says so where that has changed."""
        typical_us, longest_us = self._estimates.durations.whole.p50_us, self._longest_us
        before, self.are_worth = self.are_worth, is_worth(typical_us, longest_us, was=self.are_worth)
        if self.are_worth is before or typical_us is None or longest_us is None:
            return
        took, most = rough_duration(typical_us), rough_duration(longest_us)
        if self.are_worth:
            self._warn(f"jobs take {took} from their submission on by now: they leave by /runsync again, too")
        else:
            self._warn(
                f"jobs take {took} from their submission on, and a held answer is worth its place for {most}: they"
                " leave by /run alone until they are faster"
            )

    @property
    def _longest_us(self) -> int | None:
        return longest_hold_us(self._limiter.limit(Operation.RUN), self._limiter.limit(Operation.RUNSYNC))

    def wait_us(self, *, is_alone: bool) -> int:
        """How long an answer may be held, in time of here. `is_alone`: jobs leave by this lane only."""
        most_us = self._estimates.here_us(WAIT_US)
        longest_us = None if is_alone else self._longest_us
        return most_us if longest_us is None else max(self._estimates.here_us(WAIT_US_MIN), min(longest_us, most_us))
