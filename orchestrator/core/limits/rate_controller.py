"""What 429s do to the rate: a cut, and the way up again. A cut is a question first: do they go on at a lower rate?

A request is refused because more is sent than the service takes (a limit below the one that we know of, a neighbour on
the same key), or whatever is sent (a gateway, a fault). Against the first only a cut helps, against the other none: it
would throttle a run to a crawl. Few refusals, up to `TOLERATED`, are no matter in either case. Where there are more:

- *A trial* (`core.limits.rate_trial`): the rate is cut by more than the share that was refused. If the refusals end,
  they came of the rate. If after a whole window, by which the service has forgotten what was sent before, as many are
  refused as before, they do not: the rate is as before at once, and that share is *stray*, and expected from now on
  (`core.limits.stray_refusals`). In between, it is cut again.
- *A ceiling* (`core.limits.rate_rise`) is what the service took in the window before it refused. The rate stays a
  little below, and now and then something more is tried.

Shares are parts of the full rate, or of the requests. Times are microseconds, and arguments. How well it does is seen
by playing hours of such worlds (`python -m tests.limits.refusals`); so were its numbers found.
"""

from enum import StrEnum, auto

from orchestrator.core.limits.rate_rise import BELOW, Ceiling, Rise
from orchestrator.core.limits.rate_sample import SHARE_MIN, RateSample
from orchestrator.core.limits.rate_trial import (
    CUT,
    CUTS_MAX,
    FURTHER_CUT_SHARE,
    LEAST_VERIFIED,
    SURE_VERIFIED,
    Trial,
    deviation_of,
)
from orchestrator.core.limits.refusal_alarm import RefusalAlarm
from orchestrator.core.limits.stray_refusals import LEARNED_REQUESTS, StrayRefusals


class RatePhase(StrEnum):
    """Where it stands."""

    FREE = auto()
    """At the full rate."""
    TRIAL = auto()
    """At a lower one, to see whether refusals go on."""
    BOUND = auto()
    """Below a ceiling."""
    RISING = auto()
    """Above it, to see whether it is one still."""


class RateController:
    """Which share of the full rate is sent, by what became of the requests. Mutable; without clock and I/O."""

    def __init__(self) -> None:
        self.share = 1.0
        """The share of the full rate."""

        self.phase = RatePhase.FREE
        self._sample = RateSample()
        self._strays = StrayRefusals()
        self._alarm = self._strays.alarm()
        self._trial = Trial(share=1.0, refused=0.0, refused_late=0.0, began_at=0)
        self._ceiling = Ceiling()
        self._rise = Rise(1.0, 1, is_from_hold=False)

    def set_limit(self, per_window: float, window_us: int) -> None:
        """The full rate: so many requests, evenly, in a window."""
        self._sample.per_window, self._sample.window_us = per_window, window_us

    def begin(self, now: int) -> None:
        """The first request leaves."""
        self._sample.begin(now)

    @property
    def stray(self) -> float:
        """The share of the requests that is refused whatever the rate, as far as is known."""
        return self._strays.share

    @property
    def is_calm(self) -> bool:
        """Whether nothing was refused of late: then only refusals matter."""
        return self.phase is RatePhase.FREE and self._strays.share == 0 and self._sample.requests == 0

    @property
    def is_bounded(self) -> bool:
        """Whether a ceiling is known, or looked for."""
        return self.phase is not RatePhase.FREE

    def answered(self, now: int, sent_at: int, *, refused: bool, taken: int, answered: int) -> None:
        """One answer. Of the `answered` in the window that ends now, this one too, the service has taken `taken`."""
        if sent_at < self._sample.since:
            return
        self._sample.add(sent_at, refused, taken, answered)
        rings = self._alarm.rings(refused=refused)
        if self.phase is RatePhase.TRIAL:
            self._try(now, rings=rings, refused=refused)
        elif self.phase is RatePhase.RISING:
            self._try_step(now, rings=rings)
        elif rings:
            self._doubt(now)
        elif self.phase is RatePhase.BOUND and now >= self._ceiling.rise_at:
            self._try_more(now)
        elif self._sample.requests >= LEARNED_REQUESTS:
            self._learn(now)
        elif self._sample.requests > LEAST_VERIFIED and self._strays.is_to_be_verified(now):
            self._verify(now)

    def reopened(self, now: int, *, taken: int, taken_at_shut: int) -> None:
        """One is taken after all were refused: go on at what was taken in the window before now, or before they were.

        What was taken until the service shut is its limit where the rate was steady for a window; else it may be that
        of another time.
        """
        is_steady = self._sample.steady_us > self._sample.window_us
        seen = taken_at_shut if is_steady else max(taken, taken_at_shut / 2)
        share = min(self.share, BELOW * self._as_share(seen))
        if self.phase is RatePhase.RISING and self._rise.is_from_hold:
            share = max(share, self._rise.floor)
        self._ceiling.share = 1.0
        self._hold(now, max(share, SHARE_MIN))

    def forget(self, now: int) -> None:
        """What was refused of late was not about the rate."""
        self._go_on(now, self.share)

    def go_on(self, now: int, share: float, stray: float) -> None:
        """As another process did, at that share and with so many stray refusals. Where its rate was lower than the full
        one there may be a ceiling: more is tried after a while.
        """
        self._strays.share = stray
        if share < 1:
            self._hold(now, share)

    def _go_on(self, now: int, share: float, alarm: RefusalAlarm | None = None) -> None:
        """At `share`: what left before is not counted any more. `alarm`: where it is not the usual one."""
        self._sample.restart(now, is_other_rate=share != self.share)
        self.share = share
        self._alarm = alarm or self._strays.alarm()

    def _as_share(self, taken: float) -> float:
        return self._sample.as_share(taken, self._strays.share)

    # --- at a rate that is well

    def _learn(self, now: int) -> None:
        """How many are refused all the same."""
        seen = self._sample.refused_share
        if self._strays.is_contradicted(self._sample):
            self._ceiling.share = self._as_share(self._sample.taken)
            trial = Trial(share=self.share, refused=seen, refused_late=seen, began_at=now, rounds=1, cuts=CUTS_MAX)
            self._cut(now, self._cut_share(seen), trial)
            return
        self._strays.learn(seen)
        self._sample.forget()
        if not self._alarm.requests:
            self._alarm = self._strays.alarm()

    def _verify(self, now: int) -> None:
        """Whether what is believed to be stray is so still."""
        refused = max(self._sample.refused, self._strays.share)
        self._ceiling.share = max(self.share, self._as_share(self._sample.taken))
        to = min(0.92, max(0.5, 1 - CUT * refused)) * self._sample.sent_share(self.share)
        trial = Trial(
            share=self.share, refused=refused, refused_late=refused, began_at=now, sure=SURE_VERIFIED, cuts=CUTS_MAX
        )
        self._cut(now, to, trial)

    def _doubt(self, now: int) -> None:
        """Too many are refused. Of a window at this rate, what was taken is the ceiling, if there is one."""
        sample, least = self._sample, self._alarm.share_least
        refused = max(least, self._alarm.share / 2)
        self._ceiling.share = self._as_share(sample.taken) if sample.steady_us >= sample.window_us else 1.0
        to = self._sample.sent_share(self.share) * max((1 - refused) / 2, 1 - CUT * refused)
        trial = Trial(share=self.share, refused=sample.refused, refused_late=least, began_at=now)
        self._cut(now, min(to, self._ceiling.below), trial)

    # --- trials

    def _cut_share(self, refused: float) -> float:
        """The share that a cut leaves where so many are refused."""
        return self._sample.sent_share(self.share) * max(0.5, 1 - CUT * refused)

    def _cut(self, now: int, to: float, trial: Trial) -> None:
        self.phase = RatePhase.TRIAL
        self._trial = trial
        self._go_on(now, max(SHARE_MIN, to))

    def _try(self, now: int, *, rings: bool, refused: bool) -> None:
        """One more answer after a cut."""
        trial = self._trial
        if trial.weigh(self._strays.share, refused=refused):
            self._strays.ended(now, self._sample, now - trial.began_at)
            self._rise_from(now)
        elif trial.is_settled:
            if trial.is_to_be_judged(now, self._sample):
                self._judge(now, trial)
        elif rings and trial.cuts < CUTS_MAX and self._alarm.share_least > FURTHER_CUT_SHARE + self._strays.share:
            least = self._alarm.share_least
            self._cut(now, self._cut_share(least), trial.cut_again(now, least))
        elif now >= trial.began_at + self._sample.window_us:
            trial.settle()
            self._go_on(now, self.share)

    def _judge(self, now: int, trial: Trial) -> None:
        """The refusals did not end with the cut, not for sure."""
        seen, deviation = self._sample.refused_share, deviation_of(self._sample)
        if trial.is_to_be_repeated(seen, deviation, self._strays.share):
            self._ceiling.share = min(self._ceiling.share, self._as_share(self._sample.taken))
            self._cut(now, self._cut_share(seen), trial.repeated(now, seen))
            return
        self._strays.went_on(now, self._sample, now - trial.began_at, refused=trial.refused)
        if trial.shows_strays(seen, deviation):
            self._strays.were_at_lower_rate(seen, deviation)
            self.phase = RatePhase.FREE if trial.share >= 1 else RatePhase.BOUND
            self._go_on(now, trial.share)
        else:
            self._rise_from(now)

    # --- ceilings

    def _hold(self, now: int, share: float) -> None:
        """Below a ceiling, until it is time to try more."""
        self.phase = RatePhase.BOUND
        self._go_on(now, share)
        self._ceiling.hold(now, share, self._sample.window_us)

    def _try_more(self, now: int) -> None:
        """More than was well. Where the ceiling seems to be above, that first."""
        if self._ceiling.is_well_above(self.share):
            self._hold(now, self._ceiling.below)
            return
        self._ceiling.share = 1.0
        self._rise_from(now, is_from_hold=True)

    def _rise_from(self, now: int, *, is_from_hold: bool = False) -> None:
        self.phase = RatePhase.RISING
        self._rise = Rise(self.share, self._sample.window_us, is_from_hold=is_from_hold)
        self._take_step(now)

    def _take_step(self, now: int) -> None:
        """The next higher rate; no higher than a ceiling that is known."""
        rise = self._rise
        if self._ceiling.is_in_reach(self.share, rise.step):
            self._hold(now, self._ceiling.below)
            return
        share = rise.share_after(self.share, self._sample)
        self._go_on(now, share, self._strays.rise_alarm(self._sample))
        rise.begin_step(now, share, self._sample.window_us)

    def _try_step(self, now: int, *, rings: bool) -> None:
        """One more answer at a higher rate than was well."""
        if rings:
            self._hold(now, self._after_rise(now))
        elif not self._rise.is_step_over(now, self._sample.requests):
            pass
        elif self.share < 1:
            self._rise.end_step(self.share)
            self._take_step(now)
        else:
            self.phase = RatePhase.FREE
            self._ceiling.end(now)
            self._go_on(now, 1.0)

    def _after_rise(self, now: int) -> float:
        """More is refused again: the share to go on at."""
        by_share = self._sample.sent_share(self.share) * (1 - self._alarm.share) / (1 - self._strays.share)
        by_count = self._as_share(self._sample.taken)
        has_forgotten = now - self._trial.began_at > self._sample.window_us
        self._ceiling.share = min(1.0, by_count) if has_forgotten else by_share
        return max(self._rise.share_refused(by_count, by_share), SHARE_MIN)
