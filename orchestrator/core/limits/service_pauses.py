"""When the service wants no request, as its answers say: pauses that it asks for (`Retry-After`), and that it takes
nothing at all.

Where requests are refused one after the other, the service is *shut*: they go one at a time until one is taken. If much
of the allowance was unused then, that is not about our rate: its queue is full, and the rate stays. If that repeats
itself, it may as well be a limit far below the one that we know of, which looks the same. To send no more than was
taken of late is right for both. What other refusals mean for the rate is decided by `core.limits.rate_controller`.
"""

from typing import Final

from orchestrator.core.limits.rate_controller import RateController
from orchestrator.core.limits.request_slots import RequestSlots
from orchestrator.units import SECOND_US

BACKOFF_US_MIN: Final = SECOND_US // 2
BACKOFF_US_MAX: Final = 60 * SECOND_US
"""The pause once requests are refused one after the other, doubled while that goes on."""

REFUSED_IN_ROW: Final = 5
"""So many refused one after the other, and none taken between: the service takes nothing for now."""

RETRY_AFTER_S_MAX: Final = 3_600.0
"""A longer `Retry-After` is taken for this: somebody should look, and a date in the next century stops nothing."""

QUEUE_FULL_SHARE: Final = 0.5
"""That all is refused while we used less than this share of the allowance is not about our rate: the queue is full."""

FULL_EPISODES_MAX: Final = 3
"""The queue was full so many times in a row, each within two windows after it took a request again: the rate is cut to
what was taken in the last window."""


class ServicePauses:
    """Of one operation at one endpoint, of which `slots` are held. `queues`: whether it puts something into the queue,
    which can be full.
    """

    def __init__(self, slots: RequestSlots, controller: RateController, *, queues: bool) -> None:
        self._slots = slots
        self._controller = controller
        self._queues = queues
        self.until = 0
        """Until when the service wants no request, as its answers say; in the past where it does want some."""

        self.is_shut = False
        self.queue_full = False
        self._throttled_at = 0  # when it said so
        self._backoff_us = 0
        self._shut_at = -1  # when requests were refused one after the other; what left before then is no news
        self._refused_in_row = self._taken_at_shut = 0
        self._full_episodes = self._full_until = 0

    def accept(self, now: int, sent_at: int) -> None:
        """One was taken. If it left after the service had shut, it is open again."""
        if sent_at > self._throttled_at:  # it left during a pause that is none any more, or never was
            self.until = min(self.until, now)
        if sent_at <= self._shut_at:
            return
        self._refused_in_row = self._backoff_us = 0
        if not self.is_shut:
            if not self._controller.is_calm:
                self._tell(now, sent_at, refused=False)
            return
        self.is_shut = False
        if self.queue_full:
            self.queue_full, self._full_until = False, now
        else:
            self._controller.reopened(now, taken=self._slots.taken(now), taken_at_shut=self._taken_at_shut)

    def refuse(self, now: int, sent_at: int, retry_after_s: float | None) -> None:
        """One 429. A single one is no reason for a pause, unless the service asks for one."""
        is_past_throttle = self._throttled_at < sent_at < self.until  # that it stands says nothing of the rate
        if retry_after_s is not None:
            self._obey(now, now + round(min(max(retry_after_s, 0.0), RETRY_AFTER_S_MAX) * SECOND_US))
        if sent_at > self._shut_at and not is_past_throttle:
            self._refused_in_row += 1
            if self._refused_in_row < REFUSED_IN_ROW:
                self._tell(now, sent_at, refused=True)
            else:
                self._shut(now)
        self._slots.on_refused(now)

    def _tell(self, now: int, sent_at: int, *, refused: bool) -> None:
        taken = self._slots.taken(now) + (not refused)
        self._controller.answered(now, sent_at, refused=refused, taken=taken, answered=self._slots.answered + 1)

    def _shut(self, now: int) -> None:
        """Nothing is taken: pause, then ask with single ones. The queue is full, or the rate was too high."""
        self._shut_at = now
        self._backoff_us = min(max(2 * self._backoff_us, BACKOFF_US_MIN), BACKOFF_US_MAX)
        self._obey(now, now + self._backoff_us)
        if self.is_shut:
            return
        self.is_shut = True
        self._taken_at_shut = self._slots.taken(now)
        is_little_used = self._slots.used < QUEUE_FULL_SHARE * self._slots.requests
        if self._queues and not self._controller.is_bounded and is_little_used:
            self._find_full(now)

    def _find_full(self, now: int) -> None:
        """The queue is full, it seems. If that repeats itself, the limit may be lower than we know."""
        in_row = now <= self._full_until + 2 * self._slots.window_us
        self._full_episodes = self._full_episodes + 1 if in_row else 1
        self.queue_full = self._full_episodes < FULL_EPISODES_MAX
        if self.queue_full:
            self._controller.forget(now)
        else:
            self._full_episodes = 0

    def observe_remaining(self, now: int, remaining: int, reset_at: int) -> None:
        """The service says that `remaining` more requests fit until `reset_at`. Those in flight may not be counted yet.

        Obeyed for an hour at most, like `Retry-After`.
        """
        if remaining <= self._slots.in_flight:
            self._obey(now, min(reset_at, now + round(RETRY_AFTER_S_MAX * SECOND_US)))

    def _obey(self, now: int, until: int) -> None:
        """The service wants no request before `until`."""
        if until > self.until:
            self.until, self._throttled_at = until, now
