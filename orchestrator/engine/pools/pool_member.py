"""A member of the pools of this process: its endpoint, how fast it is, and whether it is well."""

from collections import defaultdict
from contextlib import suppress
from typing import Final, NamedTuple

import anyio

from orchestrator.core.gates.gates import ANY, Closed, Gate, GateResult, Hold
from orchestrator.core.pools.member_choice import MemberFacts
from orchestrator.core.pools.member_health import MemberHealth, MemberSigns, MemberState, usable
from orchestrator.core.pools.member_outcomes import LatestOutcomes
from orchestrator.core.pools.member_pace import MemberPace
from orchestrator.core.service.health import Health, health_of
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US

LOOK_S_MAX: Final = 5.0
"""Within this time it is to say how it is."""

MEMBER_UNWELL: Final = "it is a member of a pool that is not well: {}"


class ReportedLoad(NamedTuple):
    """What a member had, as the service said."""

    at: int
    there: int
    """Jobs that were in its queue or in execution, those of others included."""

    sent: int
    """How many of ours were there or had ended, as far as was known."""


class PoolMember:
    """Of one endpoint, for every run in whose pool it is."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.health = MemberHealth()
        self.pace = endpoint.estimates.pace = endpoint.estimates.pace or MemberPace()
        self.outcomes: defaultdict[int, LatestOutcomes] = defaultdict(LatestOutcomes)
        """What came of the latest executions there, by run."""

        self._ended = 0
        self._failed = 0
        self.looked_at = 0
        self._said: Health | None = None
        self._reported: ReportedLoad | None = None

    @property
    def is_well(self) -> bool:
        """Whether it takes part, if only to be tried."""
        return self.health.state is not MemberState.UNWELL

    @property
    def gate(self) -> GateResult:
        """Whether it gets anything."""
        if self.is_well:
            return ANY
        return Closed(Hold(Gate.MEMBER, MEMBER_UNWELL.format(self.health.why), stops=False), recalls=True)

    def facts(self, run: int) -> MemberFacts:
        """What is known of it, for who chooses where jobs of `run` go."""
        durations = self.endpoint.estimates.durations
        return MemberFacts(
            at_service=self._at_service,
            own=self._known,
            execution_us=self.pace.execution_us or (None if self.pace.ended else durations.execution.p50_us),
            per_s=self.pace.per_s,
            succeeded=self.pace.succeeded,
            failed_last=self.outcomes[run].failed_last,
            workers=0 if self._said is None else usable(self._said),
            has_queue=self.endpoint.settings_of[run].via.has_queue,
            is_tried=self.health.state is MemberState.TRIED,
        )

    @property
    def ends_every_s(self) -> float:
        """The time between two ends while jobs wait there; 0 while that is not known."""
        per_s = self.pace.per_s
        return 1 / per_s if per_s else 0.0

    @property
    def _at_service(self) -> int:
        """What the service had when it told that last, with what was sent since and without what has ended: of most of
        that nobody has heard yet.
        """
        reported = self._reported
        if reported is None:
            return self._known
        sent = self._known + self.pace.ended - reported.sent
        ended = (self.endpoint.clock.now() - reported.at) * (self.pace.per_s or 0.0) / SECOND_US
        return max(0, round(reported.there + sent - ended))

    @property
    def _known(self) -> int:
        return len(self.endpoint.outstanding) + len(self.endpoint.claimed)

    async def look(self) -> None:
        """Asks the endpoint how it is."""
        self.looked_at = self.endpoint.clock.now()
        health = await self._asked()
        if health is not None:
            self._said = health
            self.pace.observe_health(health)
            queued, running = health.jobs.in_queue, health.jobs.in_progress
            if queued is not None and running is not None:
                sent = self._known + self.pace.ended
                self._reported = ReportedLoad(at=self.endpoint.clock.now(), there=queued + running, sent=sent)

    async def _asked(self) -> Health | None:
        """What it says of itself now. Whether anything gets through to it is noted."""
        api, clock, connectivity = self.endpoint.api, self.endpoint.clock, self.endpoint.health.connectivity
        permit = await api.health_permit()
        if permit is None:
            return None
        sent_at = clock.now()
        with anyio.move_on_after(LOOK_S_MAX), suppress(NotSent, Unanswered):
            answer = await api.health(permit)
            connectivity.record_success(clock.now())
            return health_of(answer.status, answer.body)
        connectivity.record_failure(sent_at=sent_at, now=clock.now())
        return None

    @property
    def unheard_us(self) -> int:
        """For how long nothing has got through to it; 0 while something does."""
        return self.endpoint.health.connectivity.unreachable_us(self.endpoint.clock.now()) or 0

    def note_end(self, run: int, *, is_failed: bool) -> None:
        """An execution of `run` has ended there."""
        self.outcomes[run].add(is_failed=is_failed)
        self._ended += 1
        self._failed += is_failed

    def judge(self, *, fails_alone: bool) -> bool:
        """Finds out whether it is well; returns whether that is news.

        `fails_alone`: executions of a run fail there, and not at the others.
        """
        now = self.endpoint.clock.now()
        signs = MemberSigns(
            endpoint=self.endpoint.health.facts(),
            is_unreachable=self.unheard_us > 0,
            health=self._said,
            fails_alone=fails_alone,
        )
        is_news = self.health.observe(signs, now, ended=self._ended, failed=self._failed)
        for outcomes in self.outcomes.values() if is_news else ():
            outcomes.forget()
        return is_news
