"""Whether a member of a pool is well: by its answers, and by its workers.

One that is not well gets nothing. Once its signs are good again it gets single jobs, after a pause that grows each time
it turns out not to be well after all; the first execution that ends there makes it a member as any other. Where it is
its executions that failed, and not those at the others, that one must not have failed.
"""

from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.gates.gates import EndpointFacts
from orchestrator.core.service.health import Health
from orchestrator.core.text.durations import format_duration
from orchestrator.units import MINUTE_US, SECOND_US

NO_WORKERS_US: Final = MINUTE_US
"""An endpoint that starts its workers by what waits may have none for so long while jobs wait."""

DOUBT_US: Final = MINUTE_US
"""Where a member answered nothing for so long, while others did, nobody can say whether it executes its jobs."""

AGAIN_US: Final = 30 * SECOND_US
AGAIN_US_MAX: Final = 10 * MINUTE_US
"""How long after it was not well a member is tried, at first and at most."""

THROTTLED: Final = "its workers are throttled: there is no machine for them"
UNHEALTHY: Final = "its workers are unhealthy"
NO_WORKERS: Final = "jobs wait there, and it has no worker"
UNREACHABLE: Final = "it cannot be reached"
REFUSING: Final = "it refuses everything"
UNANSWERED: Final = "it answers no submission"
SUSPECT: Final = "it no longer knows many of our jobs"
FAILING: Final = "executions fail there, and not at the other members"


class MemberState(StrEnum):
    """How a member takes part."""

    WELL = "well"
    TRIED = "tried"
    """It gets one job at a time."""

    UNWELL = "unwell"
    """It gets nothing."""


class MemberSigns(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a member."""

    endpoint: EndpointFacts
    is_unreachable: bool = False
    health: Health | None = None
    """What it said of itself last."""

    fails_alone: bool = False
    """Whether executions fail there, and not at the others."""


class MemberHealth:
    """Of one member. Times are microseconds UTC."""

    def __init__(self) -> None:
        self.state = MemberState.WELL
        self.why: str | None = None
        """What is wrong with it, or was until it was tried."""

        self.since = 0
        """Since when it has not been well."""

        self._is_failing = False
        """Whether it is not well since its executions failed."""

        self._ends_before = (0, 0)
        """How many executions had ended there when it was tried, and how many of these had failed."""

        self._again_at = 0
        self._pause_us = AGAIN_US
        self._no_workers_since: int | None = None

    def observe(self, signs: MemberSigns, now: int, *, ended: int, failed: int = 0) -> bool:
        """Takes in how it is; so many executions have `ended` there, those that `failed` among them. Returns whether
        its state is another.
        """
        before, why = self.state, self._trouble(signs, now)
        ended_since, failed_since = ended - self._ends_before[0], failed - self._ends_before[1]
        if why is None and self._fails(signs, is_failed=0 < failed_since == ended_since):
            why, self._is_failing = FAILING, True
        if why is not None:
            if self.state is not MemberState.UNWELL:
                if self.state is MemberState.TRIED:
                    self._pause_us = min(2 * self._pause_us, AGAIN_US_MAX)
                else:
                    self.since = now
                self.state = MemberState.UNWELL
            self.why = why
            self._again_at = now + self._pause_us
        elif self.state is MemberState.UNWELL and now >= self._again_at:
            self.state, self._ends_before = MemberState.TRIED, (ended, failed)
        elif self.state is MemberState.TRIED and ended_since:
            self.state, self.why, self._pause_us, self._is_failing = MemberState.WELL, None, AGAIN_US, False
        return self.state is not before

    def _fails(self, signs: MemberSigns, *, is_failed: bool) -> bool:
        """Whether its executions say that it is not well; `is_failed`: what has ended since it was tried has failed."""
        if self.state is MemberState.TRIED:
            return self._is_failing and is_failed
        return self.state is MemberState.WELL and signs.fails_alone

    def _trouble(self, signs: MemberSigns, now: int) -> str | None:
        endpoint = signs.endpoint
        if endpoint.stopped is not None:
            return endpoint.stopped
        if signs.is_unreachable:
            return UNREACHABLE
        for until, why in (  # after that single ones find out
            (endpoint.submissions_refused_until, REFUSING),
            (endpoint.questions_refused_until, REFUSING),
            (endpoint.unanswered_until, UNANSWERED),
            (endpoint.suspect_until, SUSPECT),
        ):
            if until is not None and now < until:
                return why
        return self._without_workers(signs.health, now)

    def _without_workers(self, health: Health | None, now: int) -> str | None:
        workers = None if health is None else health.workers
        if workers is None or health is None or usable(health) or workers.running is None:
            self._no_workers_since = None
            return None
        if (why := trouble_of_workers(health)) is not None:
            return why
        if not health.jobs.in_queue:
            self._no_workers_since = None
            return None
        if self._no_workers_since is None:
            self._no_workers_since = now
        if now < self._no_workers_since + NO_WORKERS_US:
            return None
        return f"{NO_WORKERS} for {format_duration((now - self._no_workers_since) // SECOND_US * SECOND_US)}"


def usable(health: Health) -> int:
    """How many workers an endpoint has that work, or will."""
    workers = health.workers
    return (workers.running or 0) + max(workers.idle or 0, workers.ready or 0) + (workers.initializing or 0)


def trouble_of_workers(health: Health) -> str | None:
    """Why the workers of an endpoint cannot do anything; None where some can, or none is known of."""
    if usable(health):
        return None
    if health.workers.throttled:
        return THROTTLED
    return UNHEALTHY if health.workers.unhealthy else None
