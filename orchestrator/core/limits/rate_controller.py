"""What 429s do to the rate. A cut is a question first: do they go on at a lower rate?

A request is refused because more is sent than the service takes (a limit below the one that we know of, a neighbour on
the same key), or whatever is sent (a gateway, a fault). Against the first only a cut helps, against the other none: it
would throttle a run to a crawl. Few refusals, up to `TOLERATED`, are no matter in either case. Where there are more:

- *A trial*: the rate is cut by more than the share that was refused. If the refusals end, they came of the rate. If
  after a whole window, by which the service has forgotten what was sent before, as many are refused as before, they do
  not: the rate is as before at once, and that share is *stray*, and expected from now on. In between, it is cut again.
- *A ceiling* is what the service took in the window before it refused. The rate stays a little below, and now and then
  something more is tried, which costs a handful of refusals: after a quarter of the time for which the ceiling has
  stood, so soon where it moves, as a neighbour comes and goes, and seldom where it stays.
- *Stray* shares are believed for a while only: trials at a lower rate are repeated, more seldom with time. So none that
  was wrongly believed lasts, and a limit far below the known one is never mistaken for chance.

Shares are parts of the full rate, or of the requests. Times are microseconds, and arguments. How well it does is seen
by playing hours of such worlds (`python -m tests.limits.refusals`); so were its numbers found.
"""

from enum import StrEnum, auto
from math import log, sqrt
from typing import Final

import msgspec

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

STRAY_MAX: Final = 0.8
"""Alarms do not expect more stray refusals than these."""

STRAY_LEAST: Final = 0.001
"""Fewer are none."""

STRAY_UNTRIED: Final = 0.03
"""So many are taken for stray without a trial; there is not much to be lost."""

VERIFIED_FROM: Final = 0.025
"""A larger stray share is verified again and again."""

LEARNED_REQUESTS: Final = 300
"""The stray share is learned anew from so many requests at one rate."""

SHARE_MIN: Final = 0.05
"""The rate is never cut below this share, or it would not find its way back."""

BELOW: Final = 0.98
"""How far below a ceiling the rate stays."""

CEILING_MAX: Final = 0.966
"""One that is higher is not gone up to at once: there is too little between it and the full rate."""

CUT: Final = 1.5
"""A trial's cut, as a multiple of the share that was refused: deep enough to tell, also where a neighbour's requests
are refused as well as ours."""

CUT_LESS_MAX: Final = 2
"""So often it is cut again before the service has forgotten what was sent before."""

CUT_LESS_SHARE: Final = 0.07
"""For which so many more than the stray ones have to be refused still."""

ROUNDS_MAX: Final = 3
"""So often a trial is repeated at a still lower rate, since the share that was refused had become another."""

SURE: Final = 3.5
SURE_VERIFIED: Final = 5.0
"""How sure it has to be that a cut has ended the refusals (a logarithm); surer where they were stray so far."""

CONTRADICTED: Final = 2.0
"""Refusals that were judged to be stray are not, if more come back at the higher rate, by so many deviations."""

JUDGED_REQUESTS: Final = 250
JUDGED_REQUESTS_MIN: Final = 60
"""A trial is judged by so many requests, in half a window at least; by fewer after two windows."""

LEAST_MEASURED: Final = 10
"""The rate is measured by so many requests at least."""

LEAST_VERIFIED: Final = 20
"""A trial that verifies needs a rate that was measured."""

RISE_STEP: Final = 0.15
RISE_STEP_MAX: Final = 0.3
RISE_REQUESTS: Final = 4
"""By how much more is tried at first, doubled while nothing is refused; more where the rate is so low that it would be
fewer requests than these."""

RISE_WINDOWS: Final = 0.7
"""For how many windows it is tried at first; half of it with each step."""

RISE_REQUESTS_MAX: Final = 80
"""So many requests at the higher rate are enough, whatever the step."""

MOVED: Final = (0.88, 1.4)
"""A ceiling that has become less, or more, than this of itself has moved."""

TRIED_AGAIN: Final = 4
"""More is tried after the time for which the ceiling has stood, divided by this."""

VERIFIED_WINDOWS: Final = 4
VERIFIED_TRIALS: Final = 6
"""Verified again after so many windows, and so many times what the trial took, at least."""


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


class Trial(msgspec.Struct, kw_only=True):
    """What a cut is to tell."""

    share: float
    """The share of the rate before the cut."""

    refused: float
    """Which share of the requests was refused in the window before it."""

    refused_late: float
    """Which was at least, at the end of it."""

    sure: float
    """How sure it has to be that the refusals have ended."""

    began_at: int
    ended: float = 0.0
    """How sure it is by now."""

    is_settled: bool = False
    """Whether the service has forgotten what was sent before the cut."""

    def weigh(self, stray: float, *, refused: bool) -> bool:
        """One more answer after the cut: whether the refusals have ended for sure."""
        few = stray * 0.5 + 0.004
        many = min(0.95, max(0.7 * max(self.refused, self.refused_late), few + 0.015, 2 * few))
        self.ended += log(few / many) if refused else log((1 - few) / (1 - many))
        return self.ended > self.sure


class RateController:
    """Which share of the full rate is sent, by what became of the requests. Mutable; without clock and I/O."""

    def __init__(self) -> None:
        self.share = 1.0
        """The share of the full rate."""

        self.stray = 0.0
        """The share of the requests that is refused whatever the rate, as far as is known."""

        self.phase = RatePhase.FREE
        self._per_window = 1.0
        self._window_us = 1
        self._share_since = self._counted_since = 0
        self._requests = self._refusals = 0  # of those that left since then
        self._first_at = self._last_at = 0  # when the first and the last of them left
        self._taken = self._refused = 0.0  # in the last window: requests taken, share refused
        self._alarm = self._steady_alarm()
        self._trial = Trial(share=1.0, refused=0.0, refused_late=0.0, sure=SURE, began_at=0)
        self._lower: tuple[float, float] | None = None  # what was refused at a lower rate, and its variance
        self._deeper = self._rounds = 0
        self._ceiling = 1.0  # as the window before the last refusals has it; 1: none is known
        self._base = self._floor = 1.0  # the rate that was well; where the rise began
        self._step = 0.0
        self._step_us = 0
        self._step_requests = 0.0
        self._step_until = self._rise_at = 0
        self._is_from_hold = False
        self._stood_share, self._stood_since = 1.0, 0
        self._verified, self._verified_since, self._verify_at = 0.0, 0, 0

    def set_limit(self, per_window: float, window_us: int) -> None:
        """The full rate: so many requests, evenly, in a window."""
        self._per_window, self._window_us = per_window, window_us

    def begin(self, now: int) -> None:
        """The first request leaves."""
        self._share_since = now

    @property
    def is_calm(self) -> bool:
        """Whether nothing was refused of late: then only refusals matter."""
        return self.phase is RatePhase.FREE and self.stray == 0 and self._requests == 0

    @property
    def is_bounded(self) -> bool:
        """Whether a ceiling is known, or looked for."""
        return self.phase is not RatePhase.FREE

    def answered(self, now: int, sent_at: int, *, refused: bool, taken: int, answered: int) -> None:
        """One answer. Of the `answered` in the window that ends now, this one too, the service has taken `taken`."""
        if sent_at < self._counted_since:
            return
        if self._requests == 0:
            self._first_at = sent_at
        self._last_at = sent_at
        self._requests += 1
        self._refusals += refused
        self._taken, self._refused = taken, 1 - taken / answered
        rings = self._alarm.rings(refused=refused)
        if self.phase is RatePhase.TRIAL:
            self._try(now, rings=rings, refused=refused)
        elif self.phase is RatePhase.RISING:
            self._rise(now, rings=rings)
        elif rings:
            self._doubt(now)
        elif self.phase is RatePhase.BOUND and now >= self._rise_at:
            self._try_more(now)
        else:
            self._learn(now)

    def reopened(self, now: int, *, taken: int, taken_at_shut: int) -> None:
        """One is taken after all were refused: go on at what was taken in the window before now, or before they were.

        What was taken until the service shut is its limit where the rate was steady for a window; else it may be that
        of another time.
        """
        is_steady = self._last_at - self._share_since > self._window_us
        seen = taken_at_shut if is_steady else max(taken, taken_at_shut / 2)
        share = min(self.share, BELOW * self._as_share(seen))
        if self.phase is RatePhase.RISING and self._is_from_hold:
            share = max(share, self._floor)
        self._ceiling = 1.0
        self._hold(now, max(share, SHARE_MIN))

    def forget(self, now: int) -> None:
        """What was refused of late was not about the rate."""
        self._go_on(now, self.share, self._steady_alarm())

    # --- what was seen

    def _go_on(self, now: int, share: float, alarm: RefusalAlarm) -> None:
        """At `share`: what left before is not counted any more."""
        if share != self.share:
            self._share_since = now
        self.share = share
        self._counted_since = now
        self._requests = self._refusals = 0
        self._alarm = alarm

    def _steady_alarm(self) -> RefusalAlarm:
        stray = min(self.stray, STRAY_MAX)
        return RefusalAlarm(1.08 * stray + TOLERATED, 1.2 * stray + ALARMING, ALARM)

    def _rise_alarm(self) -> RefusalAlarm:
        """With what was refused at the rate before in mind, though that was not many requests."""
        seen = (self._refusals + 50 * self.stray) / (self._requests + 50)
        stray = min(max(self.stray, seen), STRAY_MAX)
        return RefusalAlarm(1.08 * stray + RISE_TOLERATED, 1.2 * stray + RISE_ALARMING, RISE_ALARM)

    def _sent_share(self) -> float:
        """The share of the full rate at which requests have left, which may be less than they might."""
        if self._requests < LEAST_MEASURED or self._last_at <= self._first_at:
            return self.share
        per_window = (self._requests - 1) * self._window_us / (self._last_at - self._first_at)
        return max(SHARE_MIN, min(self.share, per_window / self._per_window))

    def _as_share(self, taken: float) -> float:
        """The share of the full rate at which so many are taken in a window, beside the stray refusals."""
        return (taken - 0.5) / self._per_window / (1 - self.stray)

    def _learn(self, now: int) -> None:
        """At a rate that is well: how many are refused all the same."""
        if self._requests >= LEARNED_REQUESTS:
            seen = self._refusals / self._requests
            lower, self._lower = self._lower, None
            if lower is not None and seen > lower[0] + CONTRADICTED * sqrt(
                lower[1] + seen * (1 - seen) / self._requests
            ):
                self._rounds, self._deeper = 1, CUT_LESS_MAX
                self._ceiling = self._as_share(self._taken)
                self._cut(now, self._sent_share() * max(0.5, 1 - CUT * seen), self._trial_of(now, seen, seen))
                return
            stray = min(self.stray + (seen - self.stray) / 4, max(STRAY_UNTRIED, 1.1 * self._verified))
            self.stray = stray if stray >= STRAY_LEAST else 0.0
            if self.stray < 0.6 * self._verified:
                self._verified = self.stray
            self._requests = self._refusals = 0
            if not self._alarm.requests:
                self._alarm = self._steady_alarm()
        elif self.stray > VERIFIED_FROM and now > self._verify_at and self._requests > LEAST_VERIFIED:
            refused = max(self._refused, self.stray)
            self._rounds, self._deeper = 0, CUT_LESS_MAX
            self._ceiling = max(self._base, self._as_share(self._taken))
            to = min(0.92, max(0.5, 1 - CUT * refused)) * self._sent_share()
            self._cut(now, to, self._trial_of(now, refused, refused, sure=SURE_VERIFIED))

    # --- trials

    def _trial_of(self, now: int, refused: float, refused_late: float, *, sure: float = SURE) -> Trial:
        return Trial(share=self.share, refused=refused, refused_late=refused_late, sure=sure, began_at=now)

    def _cut(self, now: int, to: float, trial: Trial) -> None:
        self.phase = RatePhase.TRIAL
        self._trial = trial
        self._go_on(now, max(SHARE_MIN, to), self._steady_alarm())

    def _doubt(self, now: int) -> None:
        """Too many are refused. Of a window at this rate, what was taken is the ceiling, if there is one."""
        refused = max(self._alarm.share_least, self._alarm.share / 2)
        is_steady = self._last_at - self._share_since >= self._window_us
        self._rounds = self._deeper = 0
        self._ceiling = self._as_share(self._taken) if is_steady else 1.0
        to = self._sent_share() * max((1 - refused) / 2, 1 - CUT * refused)
        self._cut(now, min(to, BELOW * self._ceiling), self._trial_of(now, self._refused, self._alarm.share_least))

    def _try(self, now: int, *, rings: bool, refused: bool) -> None:
        """One more answer after a cut."""
        trial = self._trial
        judged_us = now - self._counted_since
        if trial.weigh(self.stray, refused=refused):
            self._put_off_verifying(now)
            self.stray = min(self.stray, (self._refusals + 30 * self.stray) / (self._requests + 30))
            self._rise_from(now)
        elif not trial.is_settled:
            if rings and self._deeper < CUT_LESS_MAX and self._alarm.share_least > CUT_LESS_SHARE + self.stray:
                self._deeper += 1
                least = self._alarm.share_least
                again = self._trial_of(now, trial.refused, max(trial.refused_late, least))
                again.share = trial.share
                self._cut(now, self._sent_share() * max(0.5, 1 - CUT * least), again)
            elif now >= trial.began_at + self._window_us:
                trial.is_settled, trial.ended = True, 0.0
                self._go_on(now, self.share, self._steady_alarm())
        elif self._requests >= (JUDGED_REQUESTS if judged_us <= 2 * self._window_us else JUDGED_REQUESTS_MIN) and (
            judged_us > self._window_us // 2
        ):
            self._judge(now, trial)

    def _judge(self, now: int, trial: Trial) -> None:
        """The refusals did not end with the cut, not for sure."""
        seen = self._refusals / self._requests
        deviation = sqrt(max(seen, 1 / self._requests) * (1 - seen) / self._requests)
        was_steady = self._rounds > 0 or trial.refused_late < CUT * trial.refused + 0.02
        is_same = was_steady and abs(seen - trial.refused) <= max(trial.refused / 4, deviation) + 0.005
        if seen > self.stray + 0.025 and not is_same and self._rounds < ROUNDS_MAX:
            self._rounds += 1
            self._ceiling = min(self._ceiling, self._as_share(self._taken))
            again = self._trial_of(now, seen, seen)
            again.share = trial.share
            self._cut(now, self._sent_share() * max(0.5, 1 - CUT * seen), again)
            return
        if seen > self._verified + 0.02:
            self._verified_since = now
        self._put_off_verifying(now)
        self.stray = self._verified = (self._refusals + 50 * min(seen, trial.refused)) / (self._requests + 50)
        if seen + deviation >= 0.75 * trial.refused:
            self._lower = seen, deviation * deviation
            self.phase = RatePhase.FREE if trial.share >= 1 else RatePhase.BOUND
            self._base = trial.share
            self._go_on(now, trial.share, self._steady_alarm())
        else:
            self._rise_from(now)

    def _put_off_verifying(self, now: int) -> None:
        took_us = now - self._trial.began_at
        stood_us = now - self._verified_since
        wait_us = max(VERIFIED_WINDOWS * self._window_us, stood_us // TRIED_AGAIN, VERIFIED_TRIALS * took_us)
        self._verify_at = now + wait_us

    # --- ceilings

    def _hold(self, now: int, share: float) -> None:
        """Below a ceiling, until it is time to try more."""
        self.phase = RatePhase.BOUND
        self._base = share
        self._go_on(now, share, self._steady_alarm())
        least, most = MOVED
        if self._stood_share == 1 or not least < share / self._stood_share < most:
            self._stood_share, self._stood_since = share, now
        self._rise_at = now + max(round(RISE_WINDOWS * self._window_us), (now - self._stood_since) // TRIED_AGAIN)

    def _try_more(self, now: int) -> None:
        """More than was well. Where the ceiling seems to be above, that first."""
        if self._ceiling < CEILING_MAX and self.share < 0.95 * BELOW * self._ceiling:
            self._hold(now, BELOW * self._ceiling)
            return
        self._ceiling = 1.0
        self._rise_from(now, is_from_hold=True)

    def _rise_from(self, now: int, *, is_from_hold: bool = False) -> None:
        self.phase = RatePhase.RISING
        self._base = self._floor = self.share
        self._is_from_hold = is_from_hold
        self._step, self._step_us = RISE_STEP, round(RISE_WINDOWS * self._window_us)
        self._take_step(now)

    def _take_step(self, now: int) -> None:
        """The next higher rate; no higher than a ceiling that is known."""
        if self._ceiling < 1 and self.share < BELOW * self._ceiling < self.share * (1 + self._step):
            self._hold(now, BELOW * self._ceiling)
            return
        in_step = self._base * self._per_window * self._step_us / self._window_us
        step = max(self._step, min(RISE_STEP_MAX, RISE_REQUESTS / in_step))
        alarm = self._rise_alarm()
        self._go_on(now, min(1.0, self.share * (1 + step)), alarm)
        more = max(0.01, self.share - self._base)
        self._step_until = now + (self._step_us if self.share < 1 else round(RISE_WINDOWS * self._window_us))
        self._step_requests = min(RISE_REQUESTS_MAX, RISE_REQUESTS * self.share / more)

    def _rise(self, now: int, *, rings: bool) -> None:
        """One more answer at a higher rate than was well."""
        if rings:
            self._hold(now, self._after_rise(now))
        elif now < self._step_until or self._requests < self._step_requests:
            pass
        elif self.share < 1:
            self._base = self.share
            self._step *= 2
            self._step_us //= 2
            self._take_step(now)
        else:
            self.phase = RatePhase.FREE
            self._base = self._stood_share = 1.0
            self._stood_since = now
            self._go_on(now, 1.0, self._steady_alarm())

    def _after_rise(self, now: int) -> float:
        """More is refused again: the share to go on at."""
        by_share = self._sent_share() * (1 - self._alarm.share) / (1 - self.stray)
        by_count = self._as_share(self._taken)
        self._ceiling = min(1.0, by_count) if now - self._trial.began_at > self._window_us else by_share
        if self._is_from_hold:  # a bucket that had filled meanwhile lets more through for a moment
            share = min(BELOW * by_count, self._base * (1.01 if self._base == self._floor else 1.05))
        else:
            share = BELOW * by_share
        return max(share, 0.93 * self._floor, SHARE_MIN)
