"""Sends the jobs of all runs at one endpoint: claims just in time, sends each within the limits, records what happened.

The intent is durable before a request leaves, so that a crash leaves no job in doubt that the ledger does not know to
be in doubt. What happened is decided in `core.responses`, whose turn it is in `core.fair_share`, and whether anything
may go in `core.gates`; nothing here repeats a request.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.client import Permit
from orchestrator.core.gates import gates
from orchestrator.core.gates.gates import Closed, GateResult, RoomFacts
from orchestrator.core.jobs.job import Job, Transition
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.fair_share import FairShare
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.service.openai import Answered, DirectOutcome, Unreadable, of_openai
from orchestrator.core.service.responses import (
    SAME_ID,
    Accepted,
    Answer,
    Deferred,
    Pointless,
    RunOutcome,
    Trouble,
    Uncertain,
    of_retry,
    of_run,
)
from orchestrator.core.service.s3_config import UnusableVariables
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.poll_loop import Wakeup, keep_polling
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.claimed_jobs import ClaimedJobs
from orchestrator.engine.sending.direct_responses import DirectResponses
from orchestrator.engine.sending.request_builder import RequestBuilder, UnusableInputError
from orchestrator.engine.sending.response_steps import answered, deferred, interrupted, rejected
from orchestrator.engine.sending.run_sender import AHEAD_US, IDLE_S, SENDING, RunSender
from orchestrator.errors import NotSent, Unanswered, bare
from orchestrator.ledger import Claim, Ledger
from orchestrator.units import SECOND_US

SLOW_ROOM: Final = 4
"""Where so few jobs leave within that time, it is enough to look twice in it whether the next one may be claimed."""

HELD_S_MAX: Final = 1.0
"""A claimed job whose turn does not come within this time (429s, answers that hang) is given back."""

CLAIM_MAX: Final = 400
"""The most jobs of one claim: it is one transaction."""

COUNT_EVERY_US: Final = 15_000_000
"""How often the service is asked how many jobs it executes, while its queue is as deep as may be."""

AHEAD_S: Final = AHEAD_US / SECOND_US


class Dispatcher:
    """Sends at one endpoint. `task_pool` is where requests in flight live: they outlast the taking of new work."""

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        ledger: Ledger,
        task_pool: TaskPool,
        outstanding: Callable[[], int],
        validators: ValidationPool,
    ) -> None:
        self._direct = DirectResponses(endpoint, validators)
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._outstanding = outstanding
        self._runs: dict[int, RunSender] = {}
        self.share = FairShare()
        self._in_flight: set[int] = set()
        self.held = ClaimedJobs()
        self._counted_at = -COUNT_EVERY_US
        self.is_serving = False
        self._lanes = tuple(_Lane(self, operation) for operation in SENDING)
        ledger.subscribe(self._on_steps)
        endpoint.on_change(self.wake)

    def add(self, run: RunSender) -> None:
        """Sends the jobs of `run`, too, from now on."""
        self._runs[run.run] = run
        self.wake()

    async def remove(self, run: int) -> None:
        """Sends no more of `run`; what is in flight comes to its end."""
        self._runs.pop(run, None)
        self.share.forget(run)
        for lane in self._lanes:
            await self.give_back(lane.take_out(run))

    async def begin(self, taking: TaskGroup) -> None:
        """Sends from now on, in `taking`, unless it does: several runs may begin at the same moment."""
        if not self.is_serving:
            self.is_serving = True
            await taking.start(self.serve)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sends until cancelled. What was claimed and not yet sent is then given back."""
        self.is_serving = True
        async with anyio.create_task_group() as group:
            for lane in self._lanes:
                await group.start(lane.serve)
            task_status.started()

    def wake(self) -> None:
        """Something is different: it is looked again what may go."""
        for run in self._runs.values():
            run.on_queued()
        for lane in self._lanes:
            lane.wake()

    def _on_steps(self, taken: Sequence[Transition]) -> None:
        here = self._endpoint.id
        queued = {step.after.run for step in taken if step.after.state is State.QUEUED and step.after.endpoint == here}
        for run in queued & self._runs.keys():
            self._runs[run].on_queued()
            for lane in self._lanes:
                lane.wake()

    # --- claiming

    def ready(self, operation: Operation, ahead: int) -> tuple[dict[int, int], float]:
        """How many jobs of which runs may be claimed now, besides `ahead` that are claimed; and seconds after which to
        look again for the other runs.
        """
        found: dict[int, int] = {}
        again_s = IDLE_S
        limiter = self._endpoint.api.limiter
        at_once = min(limiter.available(operation, AHEAD_US), CLAIM_MAX)
        wished_s = self._until_s(limiter.wished_until(operation))
        for run in self._runs.values():
            if none_s := run.none_s(operation):
                again_s = min(again_s, none_s)
                continue
            result = self._gate_result(run, operation)
            if isinstance(result, Closed):
                closed_s = AHEAD_S if result.until is None else self._until_s(result.until)
                again_s = min(again_s, max(closed_s, AHEAD_S / 4))
                continue
            available = at_once if result.most is None else min(at_once, result.most)
            wanted = min(available - ahead, self.admissible(run))
            if available - ahead > available // 2 and wanted > 0:
                found[run.run] = wanted
            else:
                room_s = (1 if available > SLOW_ROOM else 2) * AHEAD_S / 4
                again_s = min(again_s, max(room_s, wished_s - AHEAD_S))
        return found, again_s

    def chosen(self, ready: Iterable[int]) -> RunSender:
        """The run of `ready` whose turn it is."""
        return self._runs[self.share.next({run: self._runs[run].weight for run in ready})]

    def admissible(self, run: RunSender) -> int:
        """How many more jobs there is room for; those on their way count as sent (`core.admission`)."""
        room = self._room(run)
        if gates.is_deep(room):
            self._count_running()
        result = gates.narrowest(gates.of_room(room, self._clock.now()))
        return 0 if isinstance(result, Closed) else result.most or 0

    def is_bound(self, run: RunSender) -> bool:
        """Whether as many jobs are outstanding as can be collected in time."""
        return gates.held_up(gates.of_room(self._room(run), self._clock.now())) is not None

    def _room(self, run: RunSender) -> RoomFacts:
        endpoint = self._endpoint
        return RoomFacts(
            at_service=self._outstanding() + self._on_their_way(),
            own=run.at_service,
            status_per_s=endpoint.status_per_s,
            retention_us=endpoint.retention_us(run.run),
            queue_depth="off" if endpoint.is_local else endpoint.settings_of[run.run].queue_depth,
            finished_per_s=endpoint.throughput.per_s(self._clock.now()),
            running=endpoint.running,
            line_is_full=endpoint.api.up.waiting > 0,
            input_bytes=self.held.room_bytes,
        )

    def is_idle(self) -> bool:
        """Whether the endpoint has nothing of ours."""
        return not self._outstanding() and not self._in_flight

    def _on_their_way(self) -> int:
        return len(self._in_flight) + sum(lane.ahead for lane in self._lanes)

    def _count_running(self) -> None:
        """Asks, now and then, how many jobs do not wait: the depth of the queue does not mean those."""
        now = self._clock.now()
        if now >= self._counted_at + COUNT_EVERY_US:
            self._counted_at = now
            self._task_pool.launch(self._count)

    async def _count(self) -> None:
        health = await self._endpoint.api.ask_health()
        if health is not None and health.jobs_in_progress is not None:  # else what was known last stands
            self._endpoint.running = health.jobs_in_progress

    async def unanswered_s(self, operation: Operation, run: RunSender) -> float | None:
        """Seconds after which to look again, 0 for at once; None where jobs of `run` may be sent.

        While nothing is answered, a question goes first, if there are jobs to send. A run that has none due leaves its
        turn to the others.
        """
        if not self._endpoint.is_silent:
            return None
        await run.look_ahead(operation)
        if run.none_s(operation):
            return 0.0
        return None if await self._endpoint.is_answering() else AHEAD_S

    async def claim(self, operation: Operation, run: RunSender, most: int) -> list[Claim]:
        """Claims up to `most` jobs of `run`, whose turn it is; where it has fewer, finds out when to look again."""
        claims = await run.claim(operation, most, self.held)
        self.share.sent(run.run, len(claims), run.weight)
        if len(claims) < most:
            await run.look_ahead(operation)
        return claims

    def _until_s(self, at: int) -> float:
        return max(0.0, (at - self._clock.now()) / SECOND_US)

    def is_recalled(self, run: int) -> bool:
        """Whether not even what is claimed of `run` may be sent."""
        sending = self._runs.get(run)
        return sending is None or sending.is_recalled

    def permit_at_once(self, operation: Operation) -> Permit | None:
        """Leave to send, where nothing is in the way; at full speed to wait for each costs a hundredth of a job."""
        api = self._endpoint.api
        is_in_line = operation is not Operation.RETRY and api.up.waiting
        return None if is_in_line else api.limiter.permit_at_once(operation)

    async def permit(self, operation: Operation) -> Permit | None:
        """Waits for leave to send; None where it does not come soon."""
        api = self._endpoint.api
        if operation is not Operation.RETRY and api.up.waiting:
            await api.up.clear()  # however long that takes: to claim them again and again would be no faster
            if not self._is_open(operation):
                return None
        return await api.limiter.permit_within(operation, HELD_S_MAX)

    def _is_open(self, operation: Operation) -> bool:
        return any(not isinstance(self._gate_result(run, operation), Closed) for run in self._runs.values())

    def _gate_result(self, run: RunSender, operation: Operation) -> GateResult:
        by_retry = operation is Operation.RETRY
        return gates.narrowest(run.gate_results(in_flight=self._on_their_way(), by_retry=by_retry))

    async def give_back(self, claims: Sequence[Claim]) -> None:
        """Claimed jobs that will not be sent now are queued again, at no cost."""
        if not claims:
            return
        now = self._clock.now()
        for claim in claims:
            self.held.release(claim.job.id)
        with anyio.CancelScope(shield=True):
            await self._ledger.apply([deferred(claim.job, due_at=now, reason="not sent", now=now) for claim in claims])

    def is_in_flight(self, job: int) -> bool:
        """Whether `job` was claimed here and what became of that is not written yet."""
        return job in self.held

    # --- sending

    def launch(self, claim: Claim, permit: Permit) -> None:
        """Sends `claim` beside everything else that is in flight."""
        self._in_flight.add(claim.job.id)
        builder = self._runs[claim.job.run].builder  # the run may be removed before it is built
        self._task_pool.launch(partial(self._send, claim, permit, builder))

    async def _send(self, claim: Claim, permit: Permit, builder: RequestBuilder) -> None:
        """One request, from its turn to its meaning, which is posted: the job is in flight until that is durable."""
        job = claim.job.id
        try:
            step = await self._sent(claim, permit, builder)
        except BaseException:
            self._left_flight(job)
            raise
        self._ledger.post(step, partial(self._landed, job))

    def _landed(self, job: int, error: Exception | None) -> None:
        self._left_flight(job)
        if error is not None:
            self._task_pool.fail(error)

    def _left_flight(self, job: int) -> None:
        self._in_flight.discard(job)
        self.held.release(job)

    async def _sent(self, claim: Claim, permit: Permit, builder: RequestBuilder) -> Transition:
        """Sends `claim`; the step is what came of it."""
        job = claim.job
        sent_at = self._clock.now()
        try:
            result: Answer | NotSent | Unanswered = await self._request(claim, permit, builder)
        except UnusableVariables as error:  # one went since the input was checked, or nobody had to allow any then
            permit.give_back()
            self._endpoint.lack(job.run, error.with_advice, error.names)
            return deferred(job, due_at=sent_at, reason=str(error), now=sent_at)
        except UnusableInputError as error:
            permit.give_back()
            return rejected(job, f"not sent: {error}", now=sent_at)
        except NotSent as error:
            result = bare(error)
        except Unanswered as error:
            self._endpoint.connectivity.record_failure(sent_at=sent_at, now=self._clock.now())
            result = bare(error)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                now = self._clock.now()
                await self._ledger.step(interrupted(self._endpoint, job, sent_at=sent_at, now=now))
            raise
        if isinstance(result, Answer):
            self._endpoint.connectivity.record_success(result.answered_at)
            sent_at = result.sent_at
        outcome = self._outcome(job, permit.operation, result)
        if isinstance(outcome, Answered | Unreadable):
            self._endpoint.submission(Accepted(""), sent_at, self._clock.now())
            return await self._direct.step(job, outcome, sent_at=sent_at)
        self._endpoint.submission(outcome, sent_at, self._clock.now(), by_retry=job.by_retry)
        if isinstance(outcome, Pointless):
            self._task_pool.launch(partial(self._endpoint.stop_if_shut, outcome.reason))
        if isinstance(outcome, Deferred) and outcome.trouble is Trouble.TRANSPORT:
            self._endpoint.unreachable(outcome.reason, sent_at, self._clock.now())
        # The first answers tell how fast the service's time runs, and their jobs were claimed before.
        is_scaled = self._endpoint.api.time_scale != 1.0
        ttl_us = self._endpoint.here_us(builder.ttl_us(claim.payload)) if is_scaled else None
        return answered(self._endpoint, job, outcome, sent_at=sent_at, now=self._clock.now(), ttl_us=ttl_us)

    def _outcome(
        self, job: Job, operation: Operation, result: Answer | NotSent | Unanswered
    ) -> RunOutcome | DirectOutcome:
        """What the result of a request for `job` means. Of a `/run` that succeeded nothing is kept but the id, which
        must stay whole; of every other answer, nothing that is secret.
        """
        is_direct = operation is Operation.OPENAI
        if isinstance(result, Answer) and (is_direct or result.status >= 300):  # noqa: PLR2004
            result = msgspec.structs.replace(result, body=self._endpoint.scrub(result.body))
        if is_direct:
            return of_openai(result, time_scale=self._endpoint.api.time_scale)
        return of_retry(result, job.remote_id or "") if job.by_retry else self._of_run(job, result)

    def _of_run(self, job: Job, result: Answer | NotSent | Unanswered) -> RunOutcome:
        """What the result of a `/run` means. An id that another job has is none: its result could be either's."""
        outcome = of_run(result)
        if isinstance(outcome, Accepted) and not self._endpoint.remote_ids.give(outcome.remote_id, job.id):
            self._endpoint.disbelieve(SAME_ID)
            return Uncertain(SAME_ID)
        return outcome

    async def _request(self, claim: Claim, permit: Permit, builder: RequestBuilder) -> Answer:
        if claim.job.by_retry:
            assert claim.job.remote_id is not None
            return await self._endpoint.api.retry(permit, claim.job.remote_id)
        assert claim.job.submission is not None
        leaving = partial(self._ledger.mark, claim.job.submission)
        if permit.operation is Operation.OPENAI:
            asked = builder.question(claim)
            answer = await self._endpoint.api.openai(
                permit, asked.route, asked.body, within_s=asked.within_s, leaving=leaving
            )
            # No execution takes longer; a machine that slept meanwhile finds the answer long after it had come.
            latest_at = answer.sent_at + round(asked.within_s * SECOND_US)
            return msgspec.structs.replace(answer, answered_at=min(answer.answered_at, latest_at))
        body = builder.body(claim)
        return await self._endpoint.api.run(permit, body, leaving=leaving)


class _Lane:
    """The jobs that leave by one operation: a claimer that keeps a little ahead, and a sender."""

    def __init__(self, dispatcher: Dispatcher, operation: Operation) -> None:
        self._dispatcher = dispatcher
        self._operation = operation
        self._claimed: deque[Claim] = deque()
        self._claiming = Wakeup()
        self._sending = Wakeup()

    @property
    def ahead(self) -> int:
        """Jobs that are claimed and not yet on their way."""
        return len(self._claimed)

    def wake(self) -> None:
        """There may be something to claim."""
        self._claiming.wake()

    def take_out(self, run: int) -> list[Claim]:
        """What is claimed of `run`, which nobody will send any more."""
        found = [claim for claim in self._claimed if claim.job.run == run]
        self._claimed = deque(claim for claim in self._claimed if claim.job.run != run)
        return found

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(keep_polling, self._claim, self._claiming)
                group.start_soon(keep_polling, self._send, self._sending)
                task_status.started()
        finally:
            await self._dispatcher.give_back(self._claimed)

    async def _claim(self) -> float:
        """Claims what is missing to the next quarter of a second, of the run whose turn it is."""
        ready, again_s = self._dispatcher.ready(self._operation, self.ahead)
        if not ready:
            return again_s
        run = self._dispatcher.chosen(ready)
        unanswered_s = await self._dispatcher.unanswered_s(self._operation, run)
        if unanswered_s:
            return unanswered_s
        if unanswered_s is None:
            claims = await self._dispatcher.claim(self._operation, run, ready[run.run])
            self._claimed.extend(claims)
            if claims:
                self._sending.wake()
        self._claiming.wake()  # at once, and not at the next tick: it may be the turn of another run
        return IDLE_S

    async def _send(self) -> float:
        """Sends what was claimed, each in its turn; gives it back where going on is pointless or takes too long."""
        good: int | None = None
        while self._claimed:
            permit = self._dispatcher.permit_at_once(self._operation)
            if permit is None:
                good = None  # while we wait anything may change
                permit = await self._dispatcher.permit(self._operation)
            if permit is None:
                await self._dispatcher.give_back([self._claimed.popleft() for _ in range(len(self._claimed))])
                break
            run = self._claimed[0].job.run if self._claimed else None
            if run is None or (run != good and self._dispatcher.is_recalled(run)):
                permit.give_back()
                good = None
                await self._dispatcher.give_back(() if run is None else self.take_out(run))
            else:
                good = run
                self._dispatcher.launch(self._claimed.popleft(), permit)
                if not self._claimed:  # where few may go at once, the next look would come too late
                    self._claiming.wake()
        return IDLE_S
