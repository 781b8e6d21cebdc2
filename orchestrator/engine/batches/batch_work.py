"""The batches at one endpoint: what comes next for each is decided in `core.batches`, and done here, step by step."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.core.batches.batch_record import ENDED, BatchRecord, BatchStage
from orchestrator.core.batches.batch_steps import Step, WaitUntil, next_batch_step
from orchestrator.core.batches.terms import BatchTerms, rows_room
from orchestrator.core.batches.why import Why
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.lanes.via import Via
from orchestrator.engine.batches.batch_gates import is_on_hold, is_stopped, takes_none
from orchestrator.engine.batches.by_run import ByRun
from orchestrator.engine.batches.open_batch import OpenBatch
from orchestrator.engine.batches.step_work import StepWork
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.poll_loop import SELDOM_S, Wakeup, keep_polling
from orchestrator.engine.runtime.task_pool import TaskPool
from orchestrator.engine.sending.claim_turns import ClaimTurns
from orchestrator.engine.sending.run_sender import RunSender
from orchestrator.ledger import Ledger
from orchestrator.units import MINUTE_US, SECOND_US
from orchestrator.views.batches import BatchStatus, NoBatch, batch_status

LINGER_US: Final = 20 * SECOND_US
"""For so long after its latest rows a draft waits for others, where none is queued."""

REFUSED_US_MAX: Final = 15 * MINUTE_US
_STOPPABLE: Final = frozenset({BatchStage.DRAFT, BatchStage.RUNNING})

ON_HOLD_S: Final = 5.0
"""What holds a run up is looked at so often."""


class BatchWork:
    """Of one endpoint. `turns` has the runs that send there; `task_pool` is where requests in flight live.
    `is_successor`: a process before did not let go, so what it was adding to drafts arrives later still.
    """

    def __init__(
        self,
        *,
        endpoint: Endpoint,
        ledger: Ledger,
        task_pool: TaskPool,
        validators: ValidationPool,
        turns: ClaimTurns,
        is_successor: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._ledger = ledger
        self._clock = endpoint.clock
        self._task_pool = task_pool
        self._turns = turns
        self._is_successor = is_successor
        self._steps = StepWork(endpoint=endpoint, ledger=ledger, task_pool=task_pool, validators=validators)
        self._by_run = ByRun(endpoint=endpoint, ledger=ledger)
        self._open: dict[int, OpenBatch] = {}
        self._overtaken_before: dict[int, int] = {}
        """What was finalized before then of each run is overtaken by one that has ended."""

        self._begins: set[int] = set()
        """The runs for which a batch is being made."""

        self._not_before = 0
        """No other batch is made before: the service would not make one."""

        self._wakeup = Wakeup()
        endpoint.changes.add(self._wakeup.wake)
        endpoint.owed.add(self._wakeup.wake)
        turns.added.add(self._wakeup.wake)

    def of_run(self, run: int) -> Iterator[BatchStatus]:
        """How the batches of `run` stand about which something is to be done still."""
        for found in self._open.values():
            if found.batch.run == run:
                yield batch_status(
                    found.batch,
                    found.counts.named,
                    now=self._clock.now(),
                    overtaken_before=self._overtaken_before.get(run, 0),
                    asked_at=found.asked_at or None,
                )

    def none_for(self, run: int) -> NoBatch | None:
        """That the service makes no batch for `run`, whose jobs leave in such, where that is so."""
        sending = self._turns.runs.get(run)
        return None if sending is None or sending.builder.via is not Via.BATCH else self._steps.drafts.refused

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Goes on until cancelled, first with the batches that an earlier process has left."""
        now = self._clock.now()
        for batch in await self._ledger.runs.batches.open_at(self._endpoint.id):
            found = self._open[batch.id] = OpenBatch(batch=batch, added_at=now)
            for job in await self._ledger.runs.batches.rows(batch.id):
                if job.remote_id is not None:
                    self._endpoint.remote_ids.give(job.remote_id, job.id)
                else:
                    found.doubt_left(now, is_successor=self._is_successor)
        for run in {found.batch.run for found in self._open.values()}:
            for batch in await self._ledger.runs.batches.of_run(run):
                self._note_end(batch)
        task_status.started()
        await keep_polling(self._poll, self._wakeup, at_least_every_s=SELDOM_S)

    def on_steps(self, taken: Sequence[Transition]) -> None:
        """What is queued may go into a draft, and how others end tells whether it may."""
        for step in taken if self._open else ():
            for batch in {step.before.batch, step.after.batch}:
                if batch is not None and (found := self._open.get(batch)) is not None:
                    found.is_counted = False
        runs = {run for run, sending in self._turns.runs.items() if sending.builder.via is Via.BATCH}
        states = {step.after.state for step in taken if step.after.run in runs} if runs else set()
        if State.QUEUED in states:
            for found in self._open.values():
                found.none_before = 0
        if states:
            self._wakeup.wake()

    async def _poll(self) -> float:
        """Begins what is due; returns the seconds until more is."""
        runs = [run for run in self._turns.runs.values() if run.builder.via is Via.BATCH]
        if not self._open and not runs:
            return SELDOM_S
        waits_s = [SELDOM_S]
        for found in list(self._open.values()):
            if not found.is_busy and not found.is_counted:
                found.is_counted = True
                found.counts = await self._ledger.runs.batches.counts(found.batch.id)
        for run in runs:
            await self._by_run.look(run, self._open.values())
            waits_s.append(await self._begin(run))
        idle = [found for found in self._open.values() if not found.is_busy]
        waits_s += [await self._advance(found) for found in idle]
        return min(waits_s)

    def _until_s(self, at: int) -> float:
        return max(0.0, (at - self._clock.now()) / SECOND_US)

    # --- another one

    async def _begin(self, run: RunSender) -> float:
        """Begins a batch for `run` where rows of it wait for one and there is room; returns when to look again."""
        has_draft = any(found.batch.run == run.run and found.takes_rows for found in self._open.values())
        if has_draft or run.run in self._begins:
            return SELDOM_S
        if takes_none(self._endpoint, run) or not self._has_room(run):
            return ON_HOLD_S
        due_at = await self._due_at(run)
        begin_at = None if due_at is None else max(due_at, self._not_before)
        if begin_at is None or begin_at > self._clock.now():
            return SELDOM_S if begin_at is None else self._until_s(begin_at)
        self._begins.add(run.run)
        self._task_pool.launch(partial(self._make, run.run))
        return SELDOM_S

    async def _due_at(self, run: RunSender) -> int | None:
        """When the next queued job of `run` is due; None where none is queued."""
        return await self._ledger.jobs.next_queued_at(
            run.run, endpoint=self._endpoint.id, by_retry=False, now=self._clock.now()
        )

    def _has_room(self, run: RunSender) -> bool:
        waiting = sum(found.counts.unsettled for found in self._open.values())
        room = rows_room(self._terms(run.run), active=len(self._open), queued=waiting)
        return room > 0

    async def _make(self, run: int) -> None:
        try:
            found = await self._steps.drafts.begin(run)
            if found is not None:
                self._open[found.batch.id] = found
            else:
                pause_us = min(MINUTE_US << min(self._steps.drafts.refusals, 8), REFUSED_US_MAX) // 2
                self._not_before = self._clock.now() + pause_us
        finally:
            self._begins.discard(run)
            self._wakeup.wake()

    # --- one that is there

    async def _advance(self, found: OpenBatch) -> float:
        """Begins what is next for a batch, if that is due; returns the seconds until more is."""
        now = self._clock.now()
        if now < found.not_before:
            return self._until_s(found.not_before)
        terms = self._terms(found.batch.run)
        terms = terms.with_retention(self._endpoint.estimates.here_us(terms.retention_us))
        run = self._turns.runs.get(found.batch.run)
        is_draft = found.takes_rows
        facts = found.facts(
            more_at=await self._more_at(found, run) if is_draft and run is not None else None,
            is_on_hold=run is None or (is_draft and is_on_hold(self._endpoint, run)),
            unwanted=await self._unwanted(found),
        )
        step = next_batch_step(found.batch, facts, terms, now)
        if isinstance(step, WaitUntil):
            wait_s = self._until_s(step.until)
            return min(wait_s, ON_HOLD_S) if facts.is_on_hold and run is not None else wait_s
        found.is_busy = True
        self._task_pool.launch(partial(self._do, found, step, terms))
        return SELDOM_S

    async def _more_at(self, found: OpenBatch, run: RunSender) -> int | None:
        """When more rows may go into a draft of `run`; None for never, as far as is known."""
        now = self._clock.now()
        due_at = await self._due_at(run)
        if due_at is not None and not takes_none(self._endpoint, run):
            return max(due_at, found.none_before)
        linger_at = found.added_at + LINGER_US
        return linger_at if now < linger_at else None

    async def _unwanted(self, found: OpenBatch) -> Why | None:
        """Why nothing of a batch is to be executed, if so; it matters only where that can be helped."""
        if found.batch.stage not in _STOPPABLE:
            return None
        run = found.batch.run
        if (await self._ledger.runs.controls(run)).cancel:
            return Why.CANCELLED
        if found.takes_rows and self._endpoint.settings_of[run].via is not Via.BATCH:
            return Why.OTHER_LANE
        sending = self._turns.runs.get(run)
        if found.takes_rows and sending is not None and is_stopped(self._endpoint, sending):
            return Why.STOPPED
        finish_by = self._by_run.late.get(run)
        is_late = finish_by is not None and not self._by_run.is_in_time(found, finish_by)
        return Why.LATE if is_late else None

    def _terms(self, run: int) -> BatchTerms:
        return self._endpoint.settings_of[run].batch_terms

    def _note_end(self, batch: BatchRecord) -> None:
        before = self._overtaken_before.get(batch.run, 0)
        self._overtaken_before[batch.run] = max(before, batch.overtakes_before)

    async def _do(self, found: OpenBatch, step: Step, terms: BatchTerms) -> None:
        try:
            await self._steps.carry_out(found, step, terms, self._turns.runs.get(found.batch.run))
        finally:
            found.is_busy = found.is_counted = False
            if found.batch.stage in ENDED:
                self._open.pop(found.batch.id, None)
                self._note_end(found.batch)
            self._wakeup.wake()
