"""Whether the rate at which an endpoint may be asked for jobs is ample, and how closely each job is then polled.

A job is asked for when it is somewhat likely to have finished since it was last asked for. Where the times of the
others lie close together that is once, just after they have all finished; where they are scattered, a few times. Where
nothing is known of them it is at gaps of a sixteenth of its age, which takes many questions: so that is done only while
so few jobs are outstanding that questions cost nothing, and for a few scouts among many.

The allowance is ample as long as five questions for each outstanding job would leave a part of it unused; beyond that
each has to do with less than two (`core.jobs.deadlines.next_ask`). Times are microseconds UTC.
"""

from typing import Final

from orchestrator.core.jobs.deadlines import ASK_GAP_US_MIN, FEW
from orchestrator.core.polling.latency import DurationHistogram
from orchestrator.units import SECOND_US

QUESTIONS: Final = 5
"""So many questions for each job there must be room for."""

AMPLE_SHARE: Final = 0.8
"""The share of the allowance that they may take."""

AGAIN_SHARE: Final = 0.8
"""Once the allowance was scarce, it is ample when so much of that would suffice: each change plans all jobs anew."""

FREE_SHARE: Final = 0.1
"""While all together, each asked for once a second, take no more than this share, it does not matter how often."""

CHANCE: Final = 0.18
"""A job is asked for when it has finished with this probability: that of collecting it with five questions."""

CHANCE_FREE: Final = 0.04
"""The same where questions cost nothing and little is known: at gaps of a sixteenth of its age where nothing is."""

KNOWN: Final = 64
"""So many executions say enough of the next one."""

RARE: Final = 0.01
LATE: Final = 1.18
"""Of a hundred jobs one may have finished so much earlier, as a multiple of its time: a fifth, with the round trip."""

GAP_SHARE: Final = 1 / 20
"""No gap is shorter than this share of the time in execution: to know it sooner is worth nothing."""

QUEUED_GAP_SHARE: Final = 1 / 16
"""While a job waits in a queue of which nothing is known, the gaps are this share of the time that it has waited."""


class PollBudget:
    """Whether the questions that an endpoint allows are ample for its outstanding jobs.

    `learned` is of the times from submission to finish.
    """

    def __init__(self, learned: DurationHistogram, per_s: float) -> None:
        self._learned = learned
        self._per_s = per_s
        self.is_ample = True
        """As of the latest `weigh`."""

    def allow(self, per_s: float) -> None:
        """So many questions a second there may be from now on."""
        self._per_s = per_s

    def is_free(self, outstanding: int) -> bool:
        """Whether so few jobs are outstanding that it does not matter how often each is asked for."""
        return outstanding <= max(1.0, self._per_s * FREE_SHARE)

    def has_changed(self, outstanding: int) -> bool:
        """Whether the allowance is ample where it was scarce, or the other way round."""
        return self._weighed(outstanding) is not self.is_ample

    def weigh(self, outstanding: int) -> None:
        """Brings `is_there` up to date."""
        self.is_ample = self._weighed(outstanding)

    def _weighed(self, outstanding: int) -> bool:
        if self.is_free(outstanding):
            return True
        takes_us = self._learned.p50_us
        if takes_us is None:
            return False
        if self._learned.weight < FEW:
            takes_us *= 2
        per_s = QUESTIONS * outstanding * SECOND_US / max(takes_us, SECOND_US)
        return per_s <= self._per_s * AMPLE_SHARE * (1 if self.is_ample else AGAIN_SHARE)


def ask_closely(begun_at: int, *, asked_at: int | None, times: DurationHistogram, is_free: bool) -> int:
    """When a job whose execution began, or begins, at `begun_at` is to be asked for; `times` are those in execution.

    `asked_at`: when it was last asked for, None if never.
    """
    age_us = max(0, (asked_at or begun_at) - begun_at)
    chance = CHANCE_FREE if is_free and times.weight < KNOWN else CHANCE
    likely_us = times.over_by_us(chance, age_us, doubtful=is_free)
    latest_us = int(LATE * times.over_by_us(RARE, age_us, doubtful=is_free))
    at = begun_at + min(likely_us, latest_us)
    return at if asked_at is None else max(at, asked_at + max(ASK_GAP_US_MIN, int(age_us * GAP_SHARE)))
