"""Whose turn it is at one endpoint: which runs may send now, how many jobs, and which of them is next.

Whether anything may go is decided in `core.gates`, and whose turn it is in `core.limits.fair_share`, or, where some are
to be finished by a time, in `core.planning.deadline_turns`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final

from orchestrator.core.gates import gates
from orchestrator.core.gates.gates import Closed, RoomFacts
from orchestrator.core.lanes.sync_requests import SYNC_RETENTION_US
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.fair_share import FairShare
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.planning.deadline_turns import RunTurn, Turns, turns_of
from orchestrator.core.polling.admission import DEPTH_IN_TURNS_MIN, DEPTH_MIN
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.subscribers import Subscribers
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.run_sender import AHEAD_US, IDLE_S, RunSender
from orchestrator.units import SECOND_US

SLOW_ROOM: Final = 4
"""Where so few jobs leave within that time, it is enough to look twice in it whether the next one may be claimed."""

CLAIM_MAX: Final = 400
"""The most jobs of one claim: it is one transaction."""

COUNT_EVERY_US: Final = 15_000_000
"""How often the service is asked how many jobs it executes, while its queue is as deep as may be."""

TURNS_FOR_US: Final = 15 * SECOND_US
"""So long turns go as they were decided."""

AHEAD_S: Final = AHEAD_US / SECOND_US


class ClaimTurns:
    """Of the runs that send at one endpoint."""

    def __init__(self, *, endpoint: Endpoint, task_pool: TaskPool) -> None:
        self.runs: dict[int, RunSender] = {}
        self.share = FairShare()
        self.added = Subscribers()
        """Who is woken when another run sends here."""

        self._endpoint = endpoint
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._counted_at = -COUNT_EVERY_US
        self._turns = Turns(weights={})
        self._turns_until = 0

    def remove(self, run: int) -> None:
        """Sends no more of `run`."""
        if (removed := self.runs.pop(run, None)) is not None:
            removed.brakes.pace.late_at(self._endpoint.id, None)
        self._turns_until = 0
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
        if operation is Operation.RUNSYNC and any(run.builder.via is Via.BOTH for run in self.runs.values()):
            self._endpoint.sync_places.look()
        are_in_turns = self._are_in_turns
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
            wanted = min(available - ahead, self.admissible(run, operation, are_in_turns=are_in_turns))
            if operation is Operation.RUN and (trial_room := run.trial_room) is not None:
                wanted = min(wanted, trial_room)
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
        self._look_at_deadlines()
        return self.runs[self.share.next({run: self._weight(run) for run in ready})]

    def weight(self, run: int) -> float:
        """By how much of the endpoint `run` goes now, compared with the others."""
        self._look_at_deadlines()
        return self._weight(run)

    def _weight(self, run: int) -> float:
        return self._turns.weights.get(run) or self.runs[run].weight

    @property
    def _are_in_turns(self) -> bool:
        """Whether several runs share the endpoint, one of which is to be finished by a time."""
        return len(self.runs) > 1 and any(self._endpoint.settings_of[run].finish_by for run in self.runs)

    def _look_at_deadlines(self) -> None:
        """Decides anew, now and then, whether turns go by weight or by deadlines."""
        now = self._clock.now()
        if now < self._turns_until:
            return
        self._turns_until = now + TURNS_FOR_US
        found = self._by_deadlines(now) if self._are_in_turns else Turns(weights={})
        self._turns = found
        for number, run in self.runs.items():
            late_us = found.late_us.get(number, 0.0 if number in found.first else None)
            run.brakes.pace.late_at(self._endpoint.id, late_us, among=self._parts(run))

    def _by_deadlines(self, now: int) -> Turns:
        self._count_running()
        took = {number: run.brakes.pace.times for number, run in self.runs.items()}
        scale = self._endpoint.api.time_scale
        known = {number: each.mean_us * each.per_job / scale for number, each in took.items() if each is not None}
        if not known:
            return Turns(weights={})
        mean_us = sum(known.values()) / len(known)
        turns = {
            number: RunTurn(
                weight=run.weight,
                jobs=math.ceil(run.brakes.pace.left * self._parts(run).get(self._endpoint.id, 1.0)),
                execution_us=known.get(number, mean_us),
                finish_by=self._endpoint.settings_of[number].finish_by or None,
            )
            for number, run in self.runs.items()
        }
        estimates = self._endpoint.estimates
        at_once = max(estimates.running, estimates.throughput.per_s(now) * mean_us / SECOND_US)
        return turns_of(turns, at_once, now, were_by_deadline=bool(self._turns.first))

    def _parts(self, run: RunSender) -> Mapping[int, float]:
        """Which part of its jobs end at which endpoint: all of them here, where it has no pool."""
        return {self._endpoint.id: 1.0} if run.member_line is None else run.member_line.parts

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

    def admissible(self, run: RunSender, operation: Operation, *, are_in_turns: bool) -> int:
        """How many more jobs of `run` there is room for by `operation`; those on their way count as sent
        (`core.polling.admission`).
        """
        room = self._room(run, operation, are_in_turns=are_in_turns)
        if gates.is_deep(room):
            self._count_running()
        result = gates.narrowest(gates.room_results(room, self._clock.now()))
        return 0 if isinstance(result, Closed) else result.most or 0

    def is_bound(self, run: RunSender) -> bool:
        """Whether as many jobs are outstanding as can be collected in time."""
        room = self._room(run, run.builder.via.operation, are_in_turns=self._are_in_turns)
        return gates.first_hold(gates.room_results(room, self._clock.now())) is not None

    def _room(self, run: RunSender, operation: Operation, *, are_in_turns: bool) -> RoomFacts:
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
            least_depth=DEPTH_IN_TURNS_MIN if are_in_turns else DEPTH_MIN,
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
