"""What the runs at an endpoint need of its workers, as this process knows them: what is left of each, what its jobs
take of late, and how fast further ones come.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final

from orchestrator.core.planning.observed_times import experience
from orchestrator.core.planning.worker_need import JobTimes, WorkerDemand, arriving_per_s
from orchestrator.core.planning.worker_steps import EndpointWorkers
from orchestrator.engine.hosting.endpoint_registry import EndpointRegistry
from orchestrator.engine.hosting.run_registry import RunRegistry
from orchestrator.engine.hosting.run_session import RunSession
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.units import MINUTE_US

LOOKS: Final = 10
"""Whether further jobs come, and how many, is told by so many looks, a minute or more apart."""

START_US: Final = MINUTE_US
"""How long workers take to start where nobody has seen any start."""


def has_work(session: RunSession) -> bool:
    """Whether a run has something to send or outstanding."""
    return not session.is_over and (not session.controls.pause or bool(session.progress.at_service))


class WorkerNeeds:
    """Of the runs of one ledger."""

    def __init__(self, *, ledger: Ledger, runs: RunRegistry, endpoints: EndpointRegistry) -> None:
        self._ledger = ledger
        self._runs = runs
        self._endpoints = endpoints
        self._totals: dict[int, deque[tuple[int, int]]] = {}
        """How many jobs each run had, and when that was looked at."""

        self._start_us: dict[int, float] = {}
        """How long workers take to start, by the numbers of their endpoints."""

    def at_work(self, endpoint: int) -> Iterator[RunSession]:
        """The runs at an endpoint that have something to send there or outstanding, whatever they want of its
        workers.
        """
        for session in self._runs.sessions.values():
            if session.run.endpoint_id == endpoint and has_work(session):
                yield session

    async def recall(self, run: Run) -> None:
        """Begins with what the ledger knows of the endpoint of `run`."""
        seen = await self._ledger.jobs.history.executions(
            service_url=run.service_url, endpoint=run.endpoint, now=self._ledger.now()
        )
        if (session := self._runs.sessions.get(run.id)) is not None:
            session.brakes.pace.recall(seen)
        known = experience(seen)
        if known is not None and known.workers.start_us:
            self._start_us[run.endpoint_id] = known.workers.start_us

    def demands(self, endpoint: int) -> list[WorkerDemand]:
        """What each of them asks, those included that ask for nothing."""
        found = [self._demand(session) for session in self.at_work(endpoint)]
        is_stale = self._totals.keys() - {session.run.id for session in self._runs.sessions.values()}
        for run in is_stale:
            del self._totals[run]
        return found

    def workers(self, endpoint: int, *, bound: int, changed_at: int | None) -> EndpointWorkers:
        """How its workers stand, of which it may have so many."""
        latest = self._endpoints.endpoints[endpoint].api.latest_health
        counts = None if latest is None else latest[1].workers
        up = None if counts is None else (counts.idle or 0) + (counts.running or 0)
        return EndpointWorkers(
            bound=bound,
            changed_at=changed_at,
            start_us=self.start_us(endpoint),
            up=up,
            throttled=0 if counts is None else counts.throttled or 0,
        )

    def start_us(self, endpoint: int) -> float:
        """How long its workers take to start."""
        return self._start_us.get(endpoint, START_US)

    def _demand(self, session: RunSession) -> WorkerDemand:
        settings = self._runs.settings_of[session.run.id]
        times, scale = session.brakes.pace.times, session.own.endpoint.api.time_scale
        return WorkerDemand(
            left=session.progress.unfinished,
            times=None if times is None else JobTimes.of(times.longer(1 / scale)),
            arriving_per_s=self._arriving_per_s(session),
            finish_by=settings.finish_by or None,
            range=settings.worker_range,
            per_hour=settings.budget_per_hour,
            price_per_s=settings.price or 0.0,
        )

    def _arriving_per_s(self, session: RunSession) -> float:
        now, total = self._ledger.now(), session.progress.total
        looks = self._totals.setdefault(session.run.id, deque(maxlen=LOOKS + 1))
        if not looks or now >= looks[-1][0] + MINUTE_US:
            looks.append((now, total))
        return arriving_per_s(looks)
