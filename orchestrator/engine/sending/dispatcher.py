"""Sends the jobs of one run: claims just in time, sends each within the limits, records what happened.

The intent is durable before a request leaves, so that a crash leaves no job in doubt that the ledger does not know to
be in doubt. What happened is decided in `core.outcome`; nothing here repeats a request.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, assert_never

import anyio
import msgspec
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.core import gates
from orchestrator.core import job as transitions
from orchestrator.core.admission import Outlook, Prospect
from orchestrator.core.gates import Closed, Passage, RoomFacts
from orchestrator.core.job import Job, Outcome, Transition
from orchestrator.core.lifecycle import State
from orchestrator.core.pacing import Operation
from orchestrator.core.policy import format_duration
from orchestrator.core.ports import Permit
from orchestrator.core.responses import (
    SAME_ID,
    Accepted,
    Answer,
    Deferred,
    NotRetried,
    Pointless,
    Rejected,
    RunOutcome,
    Trouble,
    Uncertain,
    of_retry,
    of_run,
)
from orchestrator.core.retry import BACKOFF_S_MAX, backoff_us
from orchestrator.core.s3_config import MissingVariables
from orchestrator.engine.endpoint import Endpoint
from orchestrator.engine.health import ask_health
from orchestrator.engine.sending.held import Held
from orchestrator.engine.sending.prospects import Prospects
from orchestrator.engine.sending.request_builder import RequestBuilder
from orchestrator.engine.task_pool import TaskPool
from orchestrator.engine.wakeup import SELDOM_S, Wakeup, keep_polling
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Claim, Ledger
from orchestrator.ledger.control import Wishes
from orchestrator.units import SECOND_US

AHEAD_US: Final = 250_000
"""Jobs are claimed for what can be sent within this time: of what a crash catches, some may be uncertain."""

SLOW_ROOM: Final = 4
"""Where so few jobs leave within that time, it is enough to look twice in it whether the next one may be claimed."""

HELD_S_MAX: Final = 1.0
"""A claimed job whose turn does not come within this time (429s, answers that hang) is given back."""

CLAIM_MAX: Final = 400
"""The most jobs of one claim: it is one transaction."""

COUNT_EVERY_US: Final = 15_000_000
"""How often the service is asked how many jobs it executes, while its queue is as deep as may be."""

IDLE_S: Final = 5.0

FULL: Final = gates.Open(0)


class Dispatcher:
    """Sends one run's jobs. `flights` is where requests in flight live: they outlast the taking of new work."""

    def __init__(
        self,
        *,
        run: int,
        endpoint: Endpoint,
        ledger: Ledger,
        bodies: RequestBuilder,
        clock: Clock,
        task_pool: TaskPool,
        outstanding: Callable[[], int],
        wishes: Callable[[], Wishes],
    ) -> None:
        self._run = run
        self._endpoint = endpoint
        self._ledger = ledger
        self.bodies = bodies
        self._clock = clock
        self._flights = task_pool
        self._outstanding = outstanding
        self._wishes = wishes
        self._in_flight: set[int] = set()
        self._held = Held()
        self._counted_at = -COUNT_EVERY_US
        self._prospects = Prospects(
            endpoint=endpoint, clock=clock, is_idle=lambda: not outstanding() and not self._in_flight
        )
        self._lanes = (_Lane(self, Operation.RUN), _Lane(self, Operation.RETRY))
        ledger.subscribe(self._on_steps)
        endpoint.on_change(self._ring)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Sends until cancelled. What was claimed and not yet sent is then given back."""
        async with anyio.create_task_group() as group:
            for lane in self._lanes:
                await group.start(lane.serve)
            task_status.started()

    def _ring(self) -> None:
        for lane in self._lanes:
            lane.wake()

    def _on_steps(self, taken: Sequence[Transition]) -> None:
        if any(step.after.state is State.QUEUED for step in taken):
            self._ring()

    # --- claiming

    def _passages(self, *, by_retry: bool) -> list[Passage]:
        """What the gates of the run and of its endpoint say."""
        self._endpoint.look_again(self._run, self.bodies.is_set)
        return self._endpoint.passages(self._run, self._wishes(), in_flight=self._on_their_way(), by_retry=by_retry)

    def available(self, operation: Operation) -> int:
        """How many jobs may be claimed ahead of being sent."""
        passage = gates.narrowest(self._passages(by_retry=operation is Operation.RETRY))
        if isinstance(passage, Closed):
            return 0
        available = min(self._endpoint.api.available(operation, AHEAD_US), CLAIM_MAX)
        return available if passage.most is None else min(available, passage.most)

    def held_s(self, operation: Operation) -> float:
        """Seconds after which to look again whether jobs may be sent at all; 0 where they may."""
        passage = gates.narrowest(self._passages(by_retry=operation is Operation.RETRY))
        if not isinstance(passage, Closed):
            return 0.0
        return AHEAD_US / SECOND_US if passage.until is None else self.until_s(passage.until)

    def admissible(self) -> int:
        """How many more jobs there is room for; those on their way count as sent (`core.admission`)."""
        endpoint, now = self._endpoint, self._clock.now()
        room = RoomFacts(
            at_service=self._outstanding() + self._on_their_way(),
            status_per_s=endpoint.status_per_s,
            retention_us=endpoint.retention_us(self._run),
            queue_depth="off" if endpoint.is_local else endpoint.settings_of[self._run].queue_depth,
            finished_per_s=endpoint.throughput.per_s(now),
            running=endpoint.running,
            line_is_full=endpoint.api.up.waiting > 0,
            input_bytes=self._held.room_bytes,
        )
        if gates.shallow(room, now) == FULL:
            self._count_running()
        passage = gates.narrowest(gates.of_room(room, now))
        return 0 if isinstance(passage, Closed) else passage.most or 0

    def _on_their_way(self) -> int:
        return len(self._in_flight) + sum(lane.ahead for lane in self._lanes)

    def _count_running(self) -> None:
        """Asks, now and then, how many jobs do not wait: the depth of the queue does not mean those."""
        now = self._clock.now()
        if now >= self._counted_at + COUNT_EVERY_US:
            self._counted_at = now
            self._flights.launch(self._count)

    async def _count(self) -> None:
        health = await ask_health(self._endpoint.api)
        if health is not None and health.jobs_in_progress is not None:  # else what was known last stands
            self._endpoint.running = health.jobs_in_progress

    async def unheard_s(self, operation: Operation) -> float:
        """Seconds after which to look again; 0 where jobs may be sent.

        While nothing is answered, a question goes first, if there are jobs to send.
        """
        if not self._endpoint.is_silent:
            return 0.0
        due_s = self.until_s(await self.next_due_at(operation))
        return due_s or (0.0 if await self._endpoint.is_heard() else AHEAD_US / SECOND_US)

    async def claim(self, operation: Operation, most: int) -> list[Claim]:
        """Claims jobs that are due for `operation`, as far as they are worth sending."""
        by_retry = operation is Operation.RETRY
        claim = partial(
            self._ledger.claims.along,
            self._run,
            by_retry=by_retry,
            most=most,
            ttl_of=self.bodies.ttl_us,
            bytes_max=self._held.room_bytes,
        )
        if by_retry:
            claims = (await claim()).claims
            self._held.add(claims)
            return claims
        outlook = self._prospects.outlook()
        behind = self._prospects.behind(outlook)
        claimed = await claim(is_late=lambda ttl_us: outlook.of(ttl_us) is Prospect.LATE, behind=behind)
        self._held.add(claimed.claims)
        self._prospects.looked(behind, claimed)
        return await self._without_hopeless(claimed.claims, outlook)

    async def _without_hopeless(self, claims: list[Claim], outlook: Outlook) -> list[Claim]:
        """Those of `claims` that are not given up, as no execution is as short as their TTL."""
        good: list[Claim] = []
        hopeless: list[Transition] = []
        for claim in claims:
            ttl_us = (claim.job.ttl_at or 0) - (claim.job.sent_at or 0)
            if outlook.of(ttl_us) is Prospect.HOPELESS:
                self._prospects.tell(Prospect.HOPELESS, ttl_us)
                self._held.release(claim.job.id)
                hopeless.append(self._hopeless(claim.job, ttl_us))
            else:
                good.append(claim)
        if hopeless:
            with anyio.CancelScope(shield=True):
                await self._ledger.apply(hopeless)
        return good

    def _hopeless(self, job: Job, ttl_us: int) -> Transition:
        message = (
            f"not sent: its TTL of {format_duration(ttl_us)} is over before even the fastest executions here have "
            "finished"
        )
        return self._rejected(job, message)

    async def next_due_at(self, operation: Operation) -> int:
        """When another job of the run is due for `operation`, or to look again: the feed tells of those to come.

        It does not tell when a job that waits for its `/retry` may leave by `/run` instead.
        """
        now = self._clock.now()
        after = self._prospects.passed_until if operation is Operation.RUN else -1
        if after is None:
            return now
        due_at = await self._next_queued_at(operation is Operation.RETRY, now, after)
        if due_at is not None:
            return due_at
        may_turn = operation is Operation.RUN and await self._next_queued_at(True, now) is not None
        return now + int((IDLE_S if may_turn else SELDOM_S) * SECOND_US)

    async def _next_queued_at(self, by_retry: bool, now: int, after: int = -1) -> int | None:
        return await self._ledger.jobs.next_queued_at(self._run, by_retry=by_retry, now=now, after=after)

    def none_s(self, operation: Operation, before: int) -> float:
        """Seconds after which to look again, where no job becomes due `before`; 0 for at once.

        Until then jobs that were passed over may become worth sending, which no bell tells.
        """
        none_s = self.until_s(before)
        if operation is Operation.RETRY or not self._prospects.are_passed_over:
            return none_s
        return 0.0 if self._prospects.have_changed() else min(none_s, AHEAD_US / SECOND_US)

    def until_s(self, at: int) -> float:
        """Seconds until `at`; 0 where it is past."""
        return max(0.0, (at - self._clock.now()) / SECOND_US)

    @property
    def is_recalled(self) -> bool:
        """Whether not even what is claimed may be sent."""
        return gates.recalls(self._endpoint.passages(self._run, self._wishes()))

    async def permit(self, operation: Operation) -> Permit | None:
        """Waits for leave to send; None where it does not come soon."""
        api = self._endpoint.api
        if operation is Operation.RUN and api.up.waiting:
            await api.up.clear()  # however long that takes: to claim them again and again would be no faster
            if self.held_s(operation):
                return None
        if (permit := api.permit_at_once(operation)) is not None:
            return permit  # at full speed a scope for each of them is a hundredth of what a job costs
        with anyio.move_on_after(HELD_S_MAX):
            return await api.permit(operation)
        return None

    async def give_back(self, claims: list[Claim]) -> None:
        """Claimed jobs that will not be sent now are queued again, at no cost."""
        now = self._clock.now()
        for claim in claims:
            self._held.release(claim.job.id)
        with anyio.CancelScope(shield=True):
            await self._ledger.apply([self._deferred(claim.job, now, "not sent", None) for claim in claims])

    def is_in_flight(self, job: int) -> bool:
        """Whether `job` was claimed here and what became of that is not written yet."""
        return job in self._held

    # --- sending

    def launch(self, claim: Claim, permit: Permit) -> None:
        """Sends `claim` beside everything else that is in flight."""
        self._in_flight.add(claim.job.id)
        self._flights.launch(partial(self._send, claim, permit))

    async def _send(self, claim: Claim, permit: Permit) -> None:
        """One request, from its turn to its meaning, which is posted: the job is in flight until that is durable."""
        job = claim.job.id
        try:
            step = await self._sent(claim, permit)
        except BaseException:
            self._left_flight(job)
            raise
        self._ledger.post(step, partial(self._landed, job))

    def _landed(self, job: int, error: Exception | None) -> None:
        self._left_flight(job)
        if error is not None:
            self._flights.fail(error)

    def _left_flight(self, job: int) -> None:
        self._in_flight.discard(job)
        self._held.release(job)

    async def _sent(self, claim: Claim, permit: Permit) -> Transition:
        """Sends `claim`; the step is what came of it."""
        job = claim.job
        sent_at = self._clock.now()
        try:
            result: Answer | NotSent | Unanswered = await self._request(claim, permit)
        except MissingVariables as error:  # one went since the input was checked
            permit.give_back()
            self._endpoint.lack(self._run, str(error), error.names)
            return self._deferred(job, sent_at, str(error), None)
        except NotSent as error:
            result = error
        except Unanswered as error:
            self._endpoint.connectivity.record_failure(sent_at=sent_at, now=self._clock.now())
            result = error
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await self._ledger.step(self._interrupted(job, sent_at))
            raise
        if isinstance(result, Answer):
            self._endpoint.connectivity.record_success(result.answered_at)
            sent_at = result.sent_at
            if result.status >= 300:  # noqa: PLR2004  of a success nothing is kept but the id, which must stay whole
                result = msgspec.structs.replace(result, body=self._endpoint.scrub(result.body))
        outcome = of_retry(result, job.remote_id or "") if job.by_retry else self._of_run(job, result)
        self._endpoint.submission(outcome, sent_at, self._clock.now(), by_retry=job.by_retry)
        if isinstance(outcome, Pointless):
            self._flights.launch(partial(self._endpoint.stop_if_shut, outcome.reason))
        if isinstance(outcome, Deferred) and outcome.trouble is Trouble.TRANSPORT:
            self._endpoint.unreachable(outcome.reason, sent_at, self._clock.now())
        return self._step(job, outcome, sent_at)

    def _of_run(self, job: Job, result: Answer | NotSent | Unanswered) -> RunOutcome:
        """What the result of a `/run` means. An id that another job has is none: its result could be either's."""
        outcome = of_run(result)
        if isinstance(outcome, Accepted) and not self._endpoint.ids.give(outcome.remote_id, job.id):
            self._endpoint.disbelieve(SAME_ID)
            return Uncertain(SAME_ID)
        return outcome

    async def _request(self, claim: Claim, permit: Permit) -> Answer:
        if claim.job.by_retry:
            assert claim.job.remote_id is not None
            return await self._endpoint.api.retry(permit, claim.job.remote_id)
        body = self.bodies.body(claim)
        assert claim.job.submission is not None
        leaving = partial(self._ledger.mark, claim.job.submission)
        return await self._endpoint.api.run(permit, body, leaving=leaving)

    def _step(self, job: Job, outcome: RunOutcome, sent_at: int) -> Transition:
        """What `outcome` of the request for `job` makes of it."""
        now = self._clock.now()
        match outcome:
            case Accepted(remote_id):
                return self._accepted(job, remote_id, sent_at)
            case Deferred(trouble, reason, retry_after_s):
                # The throttle obeys the whole of a Retry-After: a job that is due early waits for its turn there.
                asked_us = int(min(retry_after_s or 0, BACKOFF_S_MAX) * SECOND_US)
                wait_us = max(backoff_us(job.deferrals + 1, job.id), asked_us)
                return self._deferred(job, now + wait_us, reason, trouble)
            case Rejected(reason):
                return self._rejected(job, reason)
            case Pointless(reason):
                return self._deferred(job, now, reason, None)
            case Uncertain(reason):
                return self._unanswered(job, reason, sent_at)
            case NotRetried():
                return transitions.refused_for_retry(job, at=now)
            case _:
                assert_never(outcome)

    def _accepted(self, job: Job, remote_id: str, sent_at: int) -> Transition:
        now = self._clock.now()
        if job.by_retry:
            return transitions.accepted_for_retry(job, sent_at=sent_at, at=now)
        return transitions.accepted(job, remote_id=remote_id, sent_at=sent_at, at=now)

    def _rejected(self, job: Job, reason: str) -> Transition:
        now = self._clock.now()
        if job.by_retry:  # the service no longer has it: the same attempt, made anew
            return transitions.deferred(job, due_at=now, reason=reason, at=now)
        outcome = Outcome(
            submission=job.submission, remote_id=None, status=None, trouble=Trouble.REJECTED, message=reason
        )
        return transitions.abandoned(job, outcome, reason="rejected", at=now)

    def _deferred(self, job: Job, due_at: int, reason: str, trouble: Trouble | None) -> Transition:
        now = self._clock.now()
        return transitions.deferred(
            job, due_at=due_at, reason=reason, at=now, trouble=trouble, retry_until=job.retry_until
        )

    def _unanswered(self, job: Job, reason: str, sent_at: int) -> Transition:
        now = self._clock.now()
        if job.by_retry:
            return transitions.accepted_for_retry(job, sent_at=sent_at, at=now, answered=False)
        return transitions.unanswered(job, settle_at=self._endpoint.settle_at(job, now), reason=reason, at=now)

    def _interrupted(self, job: Job, sent_at: int) -> Transition:
        now = self._clock.now()
        if job.by_retry:
            return transitions.accepted_for_retry(job, sent_at=sent_at, at=now, answered=False)
        settle_at = self._endpoint.settle_at(job, now)
        return transitions.left_unanswered(
            job, settle_at=settle_at, reason="interrupted before the answer came", at=now
        )


class _Lane:
    """The jobs that leave by one operation: a claimer that keeps a little ahead, and a sender."""

    def __init__(self, dispatcher: Dispatcher, operation: Operation) -> None:
        self._dispatcher = dispatcher
        self._operation = operation
        self._claimed: deque[Claim] = deque()
        self._claiming = Wakeup()
        self._sending = Wakeup()
        self._rings = 0
        self._none_before = 0
        """No job is due before, unless the bell rings."""

    @property
    def ahead(self) -> int:
        """Jobs that are claimed and not yet on their way."""
        return len(self._claimed)

    def wake(self) -> None:
        """There may be something to claim."""
        self._rings += 1
        self._none_before = 0
        self._claiming.wake()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(keep_polling, self._claim, self._claiming)
                group.start_soon(keep_polling, self._send, self._sending)
                task_status.started()
        finally:
            if self._claimed:
                await self._dispatcher.give_back(list(self._claimed))

    async def _claim(self) -> float:
        """Claims what is missing to the next quarter of a second."""
        available = self._dispatcher.available(self._operation)
        missing = available - len(self._claimed)
        wanted = min(missing, self._dispatcher.admissible())
        if missing <= available // 2 or not wanted:
            quarters = 1 if available > SLOW_ROOM else 2
            return max(self._dispatcher.held_s(self._operation), quarters * AHEAD_US / SECOND_US / 4)
        if none_s := self._dispatcher.none_s(self._operation, self._none_before):
            return none_s
        if unheard_s := await self._dispatcher.unheard_s(self._operation):
            return unheard_s
        rings = self._rings
        claims = await self._dispatcher.claim(self._operation, wanted)
        self._claimed.extend(claims)
        if claims:
            self._sending.wake()
        if len(claims) == wanted:
            return 0.0
        due_at = await self._dispatcher.next_due_at(self._operation)
        if rings == self._rings:  # else what rang may not have been seen
            self._none_before = due_at
        return self._dispatcher.none_s(self._operation, due_at)

    async def _send(self) -> float:
        """Sends what was claimed, each in its turn; gives it back where going on is pointless or takes too long."""
        while self._claimed:
            permit = await self._dispatcher.permit(self._operation)
            if permit is None or self._dispatcher.is_recalled:
                if permit is not None:
                    permit.give_back()
                await self._dispatcher.give_back([self._claimed.popleft() for _ in range(len(self._claimed))])
                break
            self._dispatcher.launch(self._claimed.popleft(), permit)
        return IDLE_S
