"""Collects the results of one endpoint's outstanding jobs by asking `/status`, in time.

It keeps a plan in memory of every outstanding job: when to ask next, at the latest before its hard deadline. When the
allowance is scarce, the earliest deadline goes first. What an answer means is decided in `core`; polling alone must be
able to do everything, webhooks only make it cheaper.
"""

import heapq
from collections.abc import Iterable, Sequence
from typing import Final, assert_never

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus

from orchestrator.clock import Clock
from orchestrator.core import job as steps
from orchestrator.core.deadlines import (
    ASK_GAP_US_MIN,
    Absence,
    absence,
    hard_deadline,
    lost_gap_us,
    margin_left,
    next_ask,
)
from orchestrator.core.job import Job, Outcome, Step
from orchestrator.core.lifecycle import State
from orchestrator.core.outcome import (
    Answer,
    AskAgain,
    Finished,
    Gone,
    Pointless,
    Record,
    StatusOutcome,
    Trouble,
    Undecodable,
    Unfinished,
    of_status,
)
from orchestrator.core.pacing import Operation
from orchestrator.core.ports import Turn
from orchestrator.core.retry import backoff_us
from orchestrator.errors import NotSent, Unanswered
from orchestrator.ledger import Ledger
from orchestrator.services.endpoint import Endpoint
from orchestrator.services.loop import Bell, keep_polling
from orchestrator.services.verdict import finished, in_trouble

SECOND_US: Final = 1_000_000
IDLE_S: Final = 5.0

REFUSALS_MAX: Final = 3
"""So many refusals of the key in a row end the collecting: one may be a proxy's mood, and results are at stake."""


class Entry:
    """An outstanding job in the plan."""

    __slots__ = ("ask_at", "asked_at", "asking", "gone_at", "job", "troubles", "unanswered_retry")

    def __init__(self, job: Job, ask_at: int, *, unanswered_retry: bool) -> None:
        self.job = job
        self.ask_at = ask_at
        self.asked_at: int | None = None
        self.asking = False
        self.gone_at: int | None = None
        self.troubles = 0
        self.unanswered_retry = unanswered_retry


class Collector:
    """Collects for one endpoint. `flights` is where questions in flight live."""

    def __init__(self, *, endpoint: Endpoint, ledger: Ledger, clock: Clock, flights: TaskGroup) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = clock
        self._flights = flights
        self._bell = Bell()
        self._plan: dict[int, Entry] = {}
        self._refusals = 0
        self._by_time: list[tuple[int, int]] = []
        self._ready: list[tuple[int, int]] = []
        self._well_at = 0
        ledger.subscribe(self._on_steps)

    @property
    def outstanding(self) -> int:
        """How many jobs are in the plan."""
        return len(self._plan)

    def soonest_deadline(self) -> int | None:
        """The earliest time at which a result may be lost if nobody asks, in microseconds UTC."""
        return min((self._safe_until(entry.job) for entry in self._plan.values()), default=None)

    def adopt(self, jobs: Iterable[Job], *, ask_now: bool) -> None:
        """Takes over outstanding jobs of an earlier process."""
        for job in jobs:
            self._add(job, ask_at=self._clock.now() if ask_now else None, unanswered_retry=False)
        self._bell.ring()

    def hint(self, job: int) -> None:
        """A webhook said something about `job` that has to be asked for."""
        entry = self._plan.get(job)
        if entry is not None and not entry.asking:
            self._schedule(entry, self._clock.now())
            self._bell.ring()

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Asks until cancelled."""
        task_status.started()
        await keep_polling(self._poll, self._bell)

    # --- the plan

    def _on_steps(self, taken: Sequence[Step]) -> None:
        for step in taken:
            if step.after.endpoint != self._endpoint.id:
                continue
            if step.after.state is State.OUTSTANDING:
                self._add(step.after, ask_at=None, unanswered_retry=step.reason == "retry unanswered")
            elif step.before.state is State.OUTSTANDING:
                self._plan.pop(step.after.id, None)

    def _add(self, job: Job, *, ask_at: int | None, unanswered_retry: bool) -> None:
        planned = ask_at if ask_at is not None else self._next_ask(job, None)
        entry = Entry(job, planned, unanswered_retry=unanswered_retry)
        self._plan[job.id] = entry
        self._schedule(entry, planned)
        if self._by_time[0] == (planned, job.id):
            self._bell.ring()

    def _schedule(self, entry: Entry, ask_at: int) -> None:
        entry.ask_at = ask_at
        heapq.heappush(self._by_time, (ask_at, entry.job.id))

    def _next_ask(self, job: Job, asked_at: int | None) -> int:
        return next_ask(
            job,
            asked_at=asked_at,
            predicted_us=self._endpoint.turnaround.whole.p50_us,
            webhooks=self._endpoint.webhooks,
            retention_us=self._retention_us(job),
        )

    def _safe_until(self, job: Job) -> int:
        """When a result may be gone: its retention may be over, or its TTL, which ends everything."""
        retained_until = (job.unfinished_at or 0) + self._retention_us(job)
        return retained_until if job.ttl_at is None else min(retained_until, job.ttl_at)

    def _retention_us(self, job: Job) -> int:
        return self._endpoint.settings_of[job.run].retention_us

    async def _poll(self) -> float:
        """Asks for whatever is due, the earliest deadline first; returns the seconds until more is."""
        if self._endpoint.uncollectable is not None:
            return IDLE_S
        self._move_due(self._clock.now())
        while self._ready:
            turn = await self._endpoint.api.turn(Operation.STATUS)
            self._move_due(self._clock.now())
            entry = self._most_urgent()
            if entry is None:
                turn.give_back()
                break
            entry.asking = True
            self._flights.start_soon(self._ask, entry, turn, name=f"ask {entry.job.id}")
        if not self._by_time:
            return IDLE_S
        return max(0.0, (self._by_time[0][0] - self._clock.now()) / SECOND_US)

    def _move_due(self, now: int) -> None:
        """Entries whose time has come, from the plan by time to the one by deadline."""
        while self._by_time and self._by_time[0][0] <= now:
            ask_at, job = heapq.heappop(self._by_time)
            entry = self._plan.get(job)
            if entry is not None and entry.ask_at == ask_at and not entry.asking:
                heapq.heappush(self._ready, (hard_deadline(entry.job, self._retention_us(entry.job)), job))

    def _most_urgent(self) -> Entry | None:
        while self._ready and self._endpoint.uncollectable is None:
            _, job = heapq.heappop(self._ready)
            entry = self._plan.get(job)
            if entry is not None and not entry.asking:
                return entry
        return None

    # --- one question

    async def _ask(self, entry: Entry, turn: Turn) -> None:
        """Asks for one job and acts on the answer."""
        job = entry.job
        assert job.remote_id is not None
        try:
            result: Answer | NotSent | Unanswered = await self._endpoint.api.status(turn, job.remote_id)
        except (NotSent, Unanswered) as error:
            result = error
        finally:
            entry.asking = False
        now = self._clock.now()
        entry.asked_at = now
        outcome = of_status(result)
        if isinstance(result, Answer) and not isinstance(outcome, AskAgain):
            self._endpoint.absences.observe(absent=isinstance(outcome, Gone), now=now)
        if isinstance(result, Answer) and not isinstance(outcome, Pointless):
            self._refusals = 0
        if self._plan.get(job.id) is entry:  # else a webhook, or a person, was faster
            await self._act(entry, outcome, result.sent_at if isinstance(result, Answer) else now)

    async def _act(self, entry: Entry, outcome: StatusOutcome, sent_at: int) -> None:
        match outcome:
            case Finished(record):
                await self._finish(entry, record)
            case Unfinished(known=known):
                self._is_unfinished(entry, sent_at if known else None)
            case Gone():
                await self._gone(entry)
            case AskAgain(trouble=trouble, reason=reason, retry_after_s=retry_after_s):
                if trouble is Trouble.TRANSPORT:
                    self._endpoint.unreachable(reason, self._clock.now())
                self._ask_again(entry, retry_after_s)
            case Undecodable(raw):
                await self._undecodable(entry, raw)
            case Pointless(reason):
                self._refusals += 1
                if self._refusals >= REFUSALS_MAX:
                    self._endpoint.stop_collecting(reason)
                self._ask_again(entry, None)
            case _:
                assert_never(outcome)

    def _is_unfinished(self, entry: Entry, unfinished_at: int | None) -> None:
        entry.troubles, entry.gone_at = 0, None
        if unfinished_at is not None:
            entry.unanswered_retry = False
            entry.job = msgspec.structs.replace(entry.job, unfinished_at=unfinished_at)
            self._ledger.seen(entry.job)
        self._reschedule(entry, self._next_ask(entry.job, entry.asked_at))

    def _ask_again(self, entry: Entry, retry_after_s: float | None) -> None:
        """Nothing learned: soon again, at a growing pace, but whatever the service wishes, once more in time."""
        entry.troubles += 1
        wait_us = max(backoff_us(min(entry.troubles, 4), entry.job.id), int((retry_after_s or 0) * SECOND_US))
        now, deadline = self._clock.now(), hard_deadline(entry.job, self._retention_us(entry.job))
        self._reschedule(entry, min(now + wait_us, max(deadline, now + ASK_GAP_US_MIN)))

    def _reschedule(self, entry: Entry, ask_at: int) -> None:
        self._schedule(entry, ask_at)
        self._bell.ring()

    async def _finish(self, entry: Entry, record: Record) -> None:
        """The service has finished with the job: a result, another execution, or the end."""
        job, now = entry.job, self._clock.now()
        if record.status == "COMPLETED":
            self._endpoint.turnaround.observe(record.delay_ms, record.execution_ms)
        if entry.unanswered_retry and self._endpoint.is_same_failure(job.id, record):
            again = steps.deferred(
                job,
                due_at=now + backoff_us(job.deferrals + 1, job.id),
                reason="the /retry was not applied",
                at=now,
                trouble=Trouble.TRANSPORT,
                retry_until=hard_deadline(job, self._retention_us(job)),
            )
            await self._ledger.step(again)
            return
        margin_us = margin_left(job.unfinished_at or now, self._retention_us(job), now)
        await self._ledger.step(finished(self._endpoint, job, record, reason="status", margin_us=margin_us))

    async def _undecodable(self, entry: Entry, raw: bytes) -> None:
        """Asked for again while there is time; at the deadline the raw answer is kept, since it was paid for."""
        job, now = entry.job, self._clock.now()
        if entry.troubles == 0 or now < hard_deadline(job, self._retention_us(job)):
            self._ask_again(entry, None)
            return
        outcome = Outcome(
            submission=job.submission,
            remote_id=job.remote_id,
            status=None,
            output=raw,
            trouble=Trouble.INVALID_OUTPUT,
            message="the service's answer about the finished job could not be decoded",
        )
        await self._ledger.step(steps.abandoned(job, outcome, reason="not decodable", at=now))

    # --- 404

    async def _gone(self, entry: Entry) -> None:
        """The service does not know the job: its TTL, our lateness, or a loss."""
        job, now = entry.job, self._clock.now()
        match absence(job, now=now, retention_us=self._retention_us(job)):
            case Absence.TTL:
                await self._fail(job, Trouble.TIMED_OUT, "the job's TTL ran out at the service")
            case Absence.EXPIRED:
                await self._fail(job, Trouble.EXPIRED, "its result expired before it could be collected")
            case Absence.MISSING:
                await self._missing(entry, now)

    async def _missing(self, entry: Entry, now: int) -> None:
        """Lost only after two 404s well apart, an endpoint that is well in between, and few 404s elsewhere.

        `/health` is asked after the first of them: an endpoint that vanished and comes back just after the second would
        be well again by then.
        """
        gap_us = lost_gap_us(self._retention_us(entry.job))
        if self._endpoint.absences.are_many(now):
            self._endpoint.suspect(now)
            entry.gone_at = None
        elif entry.gone_at is None:
            entry.gone_at = now if await self._is_well(now) else None
        elif now >= entry.gone_at + gap_us:
            await self._fail(entry.job, Trouble.LOST, "the service no longer knows the job")
            return
        self._reschedule(entry, max(self._clock.now(), (entry.gone_at or now) + gap_us))

    async def _is_well(self, since: int) -> bool:
        """Whether the endpoint has answered `/health` since then; whoever waits in line shares the answer."""
        turn = await self._endpoint.api.turn(Operation.HEALTH)
        if self._well_at >= since:
            turn.give_back()
            return True
        try:
            answer = await self._endpoint.api.health(turn)
        except (NotSent, Unanswered):
            return False
        if is_well := 200 <= answer.status < 300:  # noqa: PLR2004
            self._well_at = answer.sent_at
        return is_well

    async def _fail(self, job: Job, trouble: Trouble, message: str) -> None:
        outcome = Outcome(
            submission=job.submission, remote_id=job.remote_id, status=None, trouble=trouble, message=message
        )
        await self._ledger.step(in_trouble(self._endpoint, job, outcome, reason=message))
