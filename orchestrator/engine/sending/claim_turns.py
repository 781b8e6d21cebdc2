"""Whose turn it is at one endpoint: which runs may send now, how many jobs, and which of them is next.

Whether anything may go is decided in `core.gates`, and whose turn it is in `core.limits.fair_share`.
"""

from collections.abc import Iterable
from typing import Final

from orchestrator.core.gates import gates
from orchestrator.core.gates.gates import Closed, RoomFacts
from orchestrator.core.lanes.sync_requests import SYNC_RETENTION_US
from orchestrator.core.limits.fair_share import FairShare
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.run_sender import AHEAD_US, IDLE_S, RunSender
from orchestrator.units import SECOND_US

SLOW_ROOM: Final = 4
"""Where so few jobs leave within that time, it is enough to look twice in it whether the next one may be claimed."""

CLAIM_MAX: Final = 400
"""The most jobs of one claim: it is one transaction."""

COUNT_EVERY_US: Final = 15_000_000
"""How often the service is asked how many jobs it executes, while its queue is as deep as may be."""

AHEAD_S: Final = AHEAD_US / SECOND_US


class ClaimTurns:
    """Of the runs that send at one endpoint."""

    def __init__(self, *, endpoint: Endpoint, task_pool: TaskPool) -> None:
        self.runs: dict[int, RunSender] = {}
        self.share = FairShare()
        self._endpoint = endpoint
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._counted_at = -COUNT_EVERY_US

    def remove(self, run: int) -> None:
        """Sends no more of `run`."""
        self.runs.pop(run, None)
        self.share.forget(run)

    def ready(self, operation: Operation, ahead: int) -> tuple[dict[int, int], float]:
        """How many jobs of which runs may be claimed now, besides `ahead` that are claimed; and seconds after which to
        look again for the other runs.
        """
        found: dict[int, int] = {}
        again_s = IDLE_S
        limiter = self._endpoint.api.limiter
        at_once = min(limiter.available(operation, AHEAD_US), CLAIM_MAX)
        wished_s = self._until_s(limiter.throttled_until(operation))
        for run in self.runs.values():
            if none_s := run.none_s(operation):
                again_s = min(again_s, none_s)
                continue
            result = run.gate(in_flight=len(self._endpoint.claimed), by_retry=operation is Operation.RETRY)
            if isinstance(result, Closed):
                closed_s = AHEAD_S if result.until is None else self._until_s(result.until)
                again_s = min(again_s, max(closed_s, AHEAD_S / 4))
                continue
            available = at_once if result.most is None else min(at_once, result.most)
            wanted = min(available - ahead, self.admissible(run, operation))
            room_s = (1 if available > SLOW_ROOM else 2) * AHEAD_S / 4
            if wanted > 0 and run.member_line is not None and operation is not Operation.RETRY:
                wanted = min(wanted, run.member_line.room)
                if wanted == 0:
                    room_s = max(room_s, run.member_line.next_room_s)
            if available - ahead > available // 2 and wanted > 0:
                found[run.run] = wanted
            else:
                again_s = min(again_s, max(room_s, wished_s - AHEAD_S))
        return found, again_s

    def _until_s(self, at: int) -> float:
        return max(0.0, (at - self._clock.now()) / SECOND_US)

    def chosen(self, ready: Iterable[int]) -> RunSender:
        """The run of `ready` whose turn it is."""
        return self.runs[self.share.next({run: self.runs[run].weight for run in ready})]

    def is_open(self, operation: Operation) -> bool:
        """Whether any run may send by `operation`."""
        by_retry = operation is Operation.RETRY
        gates_of_runs = (
            run.gate(in_flight=len(self._endpoint.claimed), by_retry=by_retry) for run in self.runs.values()
        )
        return any(not isinstance(result, Closed) for result in gates_of_runs)

    def is_recalled(self, run: int) -> bool:
        """Whether not even what is claimed of `run` may be sent."""
        sending = self.runs.get(run)
        return sending is None or sending.is_recalled

    def admissible(self, run: RunSender, operation: Operation) -> int:
        """How many more jobs of `run` there is room for by `operation`; those on their way count as sent
        (`core.polling.admission`).
        """
        room = self._room(run, operation)
        if gates.is_deep(room):
            self._count_running()
        result = gates.narrowest(gates.room_results(room, self._clock.now()))
        return 0 if isinstance(result, Closed) else result.most or 0

    def is_bound(self, run: RunSender) -> bool:
        """Whether as many jobs are outstanding as can be collected in time."""
        room = self._room(run, run.builder.via.operation)
        return gates.first_hold(gates.room_results(room, self._clock.now())) is not None

    def _room(self, run: RunSender, operation: Operation) -> RoomFacts:
        endpoint = self._endpoint
        retention_us = endpoint.estimates.retention_us(run.run)
        brief_us = min(retention_us, endpoint.estimates.here_us(SYNC_RETENTION_US))
        if operation is Operation.RUNSYNC:
            retention_us = brief_us
        return RoomFacts(
            at_service=len(endpoint.outstanding) + len(endpoint.claimed),
            own=run.at_service,
            status_per_s=endpoint.estimates.status_per_s,
            retention_us=retention_us,
            urgent=len(endpoint.outstanding.brief) * (retention_us // max(1, brief_us) - 1),
            queue_depth="off" if endpoint.is_local else endpoint.settings_of[run.run].queue_depth,
            finished_per_s=endpoint.estimates.throughput.per_s(self._clock.now()),
            running=endpoint.estimates.running,
            line_is_full=endpoint.api.up.waiting > 0,
            input_bytes=endpoint.claimed.room_bytes,
        )

    def _count_running(self) -> None:
        """Asks, now and then, how many jobs do not wait: the depth of the queue does not mean those."""
        now = self._clock.now()
        if now >= self._counted_at + COUNT_EVERY_US:
            self._counted_at = now
            self._task_pool.launch(self._count)

    async def _count(self) -> None:
        health = await self._endpoint.api.ask_health()
        if health is not None and health.jobs.in_progress is not None:  # else what was known last stands
            self._endpoint.estimates.running = health.jobs.in_progress
