"""What becomes of the rows of a chunk that has ended: each has its part of the output, or all go again in halves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from orchestrator.core.chunks.chunk_form import ChunkPart
from orchestrator.core.chunks.chunk_steps import halved, share_of, with_riders
from orchestrator.core.jobs.cancel_reason import BY_PEOPLE, CancelWhy
from orchestrator.core.jobs.job import Job, Outcome, outcome_from
from orchestrator.core.jobs.lifecycle import Event, State, is_legal
from orchestrator.core.jobs.retry import backoff_us
from orchestrator.core.jobs.transition_type import AT_SERVICE, Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import Verdict, verdict_of
from orchestrator.core.service.webhook_token import Notice
from orchestrator.engine.collecting.judged_finish import JudgedFinish
from orchestrator.engine.collecting.notice_steps import COMPLETED, margin_of
from orchestrator.engine.collecting.result_steps import STUCK, kept_outcome, on_completed, on_failed, on_finished
from orchestrator.engine.collecting.validation_pool import GOOD, ValidationPool
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.at_once import all_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.submissions import ChunkRow

BY_STATUS: Final = "status"
BY_WEBHOOK: Final = "webhook"
LATE: Final = "webhook after its chunk was given up"

ROWS_AT_ONCE: Final = 16
"""So many outputs of one chunk are judged, and saved, at once: many more would have to wait for their judge."""


@dataclass(kw_only=True, eq=False)
class ChunkResults:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    validators: ValidationPool

    def __post_init__(self) -> None:
        self.judged = JudgedFinish(endpoint=self.endpoint, ledger=self.ledger, validators=self.validators)

    async def step(self, lead: Job, record: Record, *, margin_us: int) -> Transition:
        """The step of `lead`, whose chunk has ended as `record` says, with those of its riders."""
        rows = await self.ledger.jobs.submissions.in_chunk(lead.chunk or 0)
        verdict, parts = self._parts(lead, record, rows)
        if parts:
            return await self._by_parts(lead, record, rows, parts, margin_us, reason=BY_STATUS)
        of_all = None if rows[0].cancel_why in BY_PEOPLE else rows[0].cancel_why  # people choose rows
        steps: list[Transition] = []
        for place, job, row in _outstanding(lead, rows):
            why = row.cancel_why if row.cancel_why in BY_PEOPLE else of_all
            step = self._on_trouble(lead, job, share_of(record, place, len(rows)), verdict, why)
            steps.append(replace(step, is_ridden=job is not lead))
        return with_riders(steps)

    async def steps_by_webhook(self, lead: Job, notice: Notice, record: Record) -> list[Transition]:
        """The steps that follow from the result of a chunk, led by `lead`, which came in `record` of `notice`.
        None where only `/status` can say what became of it, or nobody needs the result any more.

        Of a chunk that was given up, those rows take it that wait to be sent again, or have failed.
        """
        chunk, margin_us = notice.submission, margin_of(self.endpoint, notice, lead)
        rows = await self.ledger.jobs.submissions.in_chunk(chunk)
        _, parts = self._parts(lead, record, rows)
        if not parts:
            return []
        if lead.submission == chunk and lead.state is State.OUTSTANDING:
            return [await self._by_parts(lead, record, rows, parts, margin_us, reason=BY_WEBHOOK)]
        jobs = await self.ledger.jobs.of([row.number for row in rows])
        works = [
            partial(self._late, job, _part_of(record, parts, place), row.submission, margin_us)
            for place, row in enumerate(rows)
            if (job := jobs.get(row.number)) is not None
            and parts[place].error is None
            and job.state not in AT_SERVICE
            and is_legal(job.state, Event.COMPLETED)
        ]
        return [step for step in await all_of(works, most=ROWS_AT_ONCE) if step is not None]

    async def _by_parts(
        self,
        lead: Job,
        record: Record,
        rows: Sequence[ChunkRow],
        parts: Sequence[ChunkPart],
        margin_us: int,
        *,
        reason: str,
    ) -> Transition:
        works = [
            partial(self._of_row, job, _part_of(record, parts, place), margin_us, row, reason)
            for place, job, row in _outstanding(lead, rows)
        ]
        return with_riders(await all_of(works, most=ROWS_AT_ONCE))

    async def _of_row(self, job: Job, part: Record, margin_us: int, row: ChunkRow, reason: str) -> Transition:
        """The step of `job` by its own `part`. Why it was to be cancelled was asked for with its `row`."""
        judged = await self.judged.judged(job, part) if part.status == COMPLETED else GOOD
        return on_finished(
            self.endpoint, job, part, reason=reason, margin_us=margin_us, cancel_why=row.cancel_why, judged=judged
        )

    async def _late(self, job: Job, part: Record, submission: int, margin_us: int) -> Transition | None:
        """The step of `job`, whose `submission` was given up with its chunk, by its own `part`; None where that is no
        result.
        """
        judged = await self.judged.judged(job, part)
        required = self.endpoint.settings_of[job.run].output_required
        if verdict_of(part, output_required=required, rejected=judged.invalid).trouble is not None:
            return None
        outcome = kept_outcome(outcome_from(job, part, trouble=None, message=None, margin_us=margin_us), judged)
        outcome = replace(outcome, submission=submission, remote_id=part.remote_id)
        return on_completed(self.endpoint, job, outcome, reason=LATE, judged=judged)

    def _parts(self, lead: Job, record: Record, rows: list[ChunkRow]) -> tuple[Verdict, list[ChunkPart]]:
        """How the chunk went, and the part of each of its rows, if it has come to that."""
        verdict = verdict_of(record, output_required=False)
        if verdict.trouble is not None:
            return verdict, []
        form = self.endpoint.settings_of[lead.run].chunk_form
        found = form.split(record.output, [row.custom_id for row in rows])
        return (Verdict(FailureClass.INVALID_OUTPUT, found), []) if isinstance(found, str) else (verdict, found)

    def _on_trouble(self, lead: Job, job: Job, record: Record, verdict: Verdict, why: CancelWhy | None) -> Transition:
        """The step of `job`, whose whole chunk came to nothing."""
        trouble, message = verdict.trouble or FailureClass.FAILED, verdict.message
        if trouble is FailureClass.CANCELLED and why is CancelWhy.STUCK:
            trouble, message = FailureClass.TIMED_OUT, STUCK
        elif trouble is FailureClass.CANCELLED:
            return on_finished(self.endpoint, job, record, reason=BY_STATUS, margin_us=None, cancel_why=why)
        if why in BY_PEOPLE:
            failed = record if record.status != COMPLETED else replace(record, status="FAILED", error=message)
            return on_finished(self.endpoint, job, failed, reason=BY_STATUS, margin_us=None, cancel_why=why)
        outcome = outcome_from(job, record, trouble=trouble, message=message, margin_us=None)
        return on_chunk_failed(self.endpoint, lead, job, outcome)


def on_chunk_failed(endpoint: Endpoint, lead: Job, job: Job, outcome: Outcome) -> Transition:
    """The step of `job`, whose chunk, led by `lead`, has failed as `outcome` says: in halves again, unless it was
    alone. They are due at the same moment, so that halves it is.
    """
    if not lead.has_riders:
        return on_failed(endpoint, job, outcome, reason=BY_STATUS)
    now = endpoint.clock.now()
    step = halved(
        job,
        outcome.trouble or FailureClass.FAILED,
        because=outcome.message or "",
        due_at=now + backoff_us(1, lead.id),
        at=now,
        previous_outcome=outcome,
    )
    return endpoint.homes.homeward(step)


def _outstanding(lead: Job, rows: Sequence[ChunkRow]) -> Iterator[tuple[int, Job, ChunkRow]]:
    """Those rows that are at the service still, with their places; others have come to their ends by themselves."""
    for place, row in enumerate(rows):
        job = lead if place == 0 else row.job
        if job is not None and job.state is State.OUTSTANDING:
            yield place, job, row


def _part_of(record: Record, parts: Sequence[ChunkPart], place: int) -> Record:
    """`record` of a chunk as it is of the row at `place`."""
    share, part = share_of(record, place, len(parts)), parts[place]
    if part.error is None:
        return replace(share, output=part.output)
    return replace(share, status="FAILED", output=None, error=part.error)
