"""What becomes of the rows of a chunk that has ended: each has its part of the output, or all go again in halves."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from orchestrator.core.chunks.chunk_form import ChunkPart
from orchestrator.core.chunks.chunk_steps import halved, share_of, with_riders
from orchestrator.core.jobs.cancel_reason import BY_PEOPLE, CancelWhy
from orchestrator.core.jobs.job import Job, Outcome, outcome_from
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.retry import backoff_us
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import Verdict, verdict_of
from orchestrator.engine.collecting.judged_finish import JudgedFinish
from orchestrator.engine.collecting.result_steps import STUCK, on_failed, on_finished
from orchestrator.engine.collecting.validation_pool import GOOD
from orchestrator.engine.endpoint.endpoint import Endpoint
from orchestrator.engine.runtime.at_once import all_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.submissions import ChunkRow

BY_STATUS = "status"

ROWS_AT_ONCE: Final = 16
"""So many outputs of one chunk are judged, and saved, at once: many more would have to wait for their judge."""


@dataclass(kw_only=True, eq=False)
class ChunkResults:
    """Of one endpoint."""

    endpoint: Endpoint
    ledger: Ledger
    judged: JudgedFinish

    async def step(self, lead: Job, record: Record, *, margin_us: int) -> Transition:
        """The step of `lead`, whose chunk has ended as `record` says, with those of its riders."""
        rows = await self.ledger.jobs.submissions.in_chunk(lead.chunk or 0)
        verdict, parts = self._parts(lead, record, rows)
        of_all = None if rows[0].cancel_why in BY_PEOPLE else rows[0].cancel_why  # people choose rows
        steps: list[Transition] = []
        works: list[Callable[[], Awaitable[Transition]]] = []
        for place, row in enumerate(rows):
            job = lead if place == 0 else row.job
            if job is None or job.state is not State.OUTSTANDING:
                continue  # it has come to its end by itself
            share = share_of(record, place, len(rows))
            if parts:
                works.append(partial(self._of_row, job, _of_part(share, parts[place]), margin_us, row.cancel_why))
            else:
                why = row.cancel_why if row.cancel_why in BY_PEOPLE else of_all
                step = self._on_trouble(lead, job, share, verdict, why)
                steps.append(replace(step, is_ridden=job is not lead))
        return with_riders(await all_of(works, most=ROWS_AT_ONCE) if parts else steps)

    async def _of_row(self, job: Job, part: Record, margin_us: int, cancel_why: CancelWhy | None) -> Transition:
        """The step of `job` by its own `part`. Why it was to be cancelled was asked for with its row."""
        judged = await self.judged.judged(job, part) if part.status == "COMPLETED" else GOOD
        return on_finished(
            self.endpoint, job, part, reason=BY_STATUS, margin_us=margin_us, cancel_why=cancel_why, judged=judged
        )

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
            failed = record if record.status != "COMPLETED" else replace(record, status="FAILED", error=message)
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


def _of_part(record: Record, part: ChunkPart) -> Record:
    """`record` of a chunk as it is of the row that has this `part` of its output."""
    if part.error is None:
        return replace(record, output=part.output)
    return replace(record, status="FAILED", output=None, error=part.error)
