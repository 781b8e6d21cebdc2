"""Which share of the requests is refused (429) whatever the rate, and what more is too many.

Such a share is believed for a while only: trials at a lower rate are repeated, more seldom with time. So none that was
wrongly believed lasts, and a limit far below the known one is never mistaken for chance.
"""

from math import sqrt
from typing import Final

from orchestrator.core.limits.rate_sample import RateSample
from orchestrator.core.limits.refusal_alarm import RefusalAlarm

TOLERATED: Final = 0.015
"""So many refusals beside the stray ones are not worth a trial: less would be taken at a lower rate."""

ALARMING: Final = 0.07
ALARM: Final = 5.0
"""Whether there are more than that is told against this share, and so surely (a logarithm)."""

RISE_TOLERATED: Final = 0.008
RISE_ALARMING: Final = 0.08
RISE_ALARM: Final = 3.2
"""The same while a higher rate is tried: sooner, for then they are expected."""

STRAY_MAX: Final = 0.75
"""Alarms do not expect more stray refusals than these: beyond them all would have to be refused before one rings."""

STRAY_LEAST: Final = 0.001
"""Fewer are none."""

STRAY_UNTRIED: Final = 0.03
"""So many are taken for stray without a trial; there is not much to be lost."""

VERIFIED_FROM: Final = 0.025
"""A larger stray share is verified again and again."""

LEARNED_REQUESTS: Final = 300
"""The stray share is learned anew from so many requests at one rate."""

CONTRADICTED: Final = 2.0
"""Refusals that were judged to be stray are not, if more come back at the higher rate, by so many deviations."""

TRIED_AGAIN: Final = 4
"""A stray share is verified again, and more is tried than a ceiling, after the time for which it has stood, divided by
this."""

VERIFIED_WINDOWS: Final = 4
VERIFIED_TRIALS: Final = 6
"""Verified again after so many windows, and so many times what the trial took, at least."""


class StrayRefusals:
    """The refusals that our rate does not cause, as far as is known."""

    def __init__(self) -> None:
        self.share = 0.0
        """The share of the requests that is refused whatever the rate."""

        self._verified, self._verified_since, self._verify_at = 0.0, 0, 0
        self._lower: tuple[float, float] | None = None  # what was refused at a lower rate, and its variance

    def alarm(self) -> RefusalAlarm:
        """Rings where more are refused than these."""
        stray = min(self.share, STRAY_MAX)
        return RefusalAlarm(1.08 * stray + TOLERATED, 1.2 * stray + ALARMING, ALARM)

    def rise_alarm(self, before: RateSample) -> RefusalAlarm:
        """The same at a higher rate than that of `before`, with what was refused then in mind, though that was not many
        requests.
        """
        stray = min(max(self.share, before.refused_share_with(self.share, 50)), STRAY_MAX)
        return RefusalAlarm(1.08 * stray + RISE_TOLERATED, 1.2 * stray + RISE_ALARMING, RISE_ALARM)

    def learn(self, seen: float) -> None:
        """So many are refused at a rate that is well."""
        stray = min(self.share + (seen - self.share) / 4, max(STRAY_UNTRIED, 1.1 * self._verified))
        self.share = stray if stray >= STRAY_LEAST else 0.0
        if self.share < 0.6 * self._verified:
            self._verified = self.share

    def is_contradicted(self, sample: RateSample) -> bool:
        """Whether more are refused than were at the lower rate of the trial: asked once after it."""
        lower, self._lower = self._lower, None
        if lower is None:
            return False
        share, variance = lower
        seen = sample.refused_share
        return seen > share + CONTRADICTED * sqrt(variance + seen * (1 - seen) / sample.requests)

    def is_to_be_verified(self, now: int) -> bool:
        """Whether it is time for another trial."""
        return self.share > VERIFIED_FROM and now > self._verify_at

    def ended(self, now: int, sample: RateSample, took_us: int) -> None:
        """A trial that took so long has ended the refusals: those of `sample` are all that may be stray."""
        self._put_off_verifying(now, sample.window_us, took_us)
        self.share = min(self.share, sample.refused_share_with(self.share, 30))

    def went_on(self, now: int, sample: RateSample, took_us: int, *, refused: float) -> None:
        """A trial that took so long has not ended the refusals, of which there were `refused` before."""
        seen = sample.refused_share
        if seen > self._verified + 0.02:
            self._verified_since = now
        self._put_off_verifying(now, sample.window_us, took_us)
        self.share = self._verified = sample.refused_share_with(min(seen, refused), 50)

    def were_at_lower_rate(self, seen: float, deviation: float) -> None:
        """So many there were at the rate of the trial: no fewer than before, so they are stray."""
        self._lower = seen, deviation * deviation

    def _put_off_verifying(self, now: int, window_us: int, took_us: int) -> None:
        stood_us = now - self._verified_since
        self._verify_at = now + max(VERIFIED_WINDOWS * window_us, stood_us // TRIED_AGAIN, VERIFIED_TRIALS * took_us)
