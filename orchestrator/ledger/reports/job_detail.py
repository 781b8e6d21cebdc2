"""Job details: all that the ledger knows of one job, for people who look into it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from sqlalchemy import select

from orchestrator.core.diagnosis.failed_executions import FailedExecutionView
from orchestrator.core.filters.filter import Comparison, Text
from orchestrator.core.jobs.job_story import CheckpointView, SegmentView, SubmissionView, TimelineStep
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import reason_text
from orchestrator.core.text.durations import with_own
from orchestrator.core.text.error_text import summary_of
from orchestrator.errors import DamagedError
from orchestrator.ledger.jobs.history import EventRow, History
from orchestrator.ledger.jobs.segments import CheckpointRow, SegmentRow, Segments
from orchestrator.ledger.reports.failed_executions import FailedExecutions
from orchestrator.ledger.reports.job_queries import JobQueries
from orchestrator.ledger.reports.selected_jobs import SelectedJob
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.schema.job_tables import (
    batches,
    endpoints,
    jobs,
    outcomes,
    payloads,
    row_metadata,
    submissions,
)
from orchestrator.ledger.schema.row_codec import columns, unpack
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transactions.repository import Access, Repository, asked_again
from orchestrator.views.jobs import WholeJob


class SubmissionRow(SubmissionView, frozen=True, kw_only=True, array_like=True):
    """One submission of a job, with its number."""

    id: int


_ENDPOINT: Final = select(endpoints.c.endpoint).select_from(jobs.join(endpoints, endpoints.c.id == jobs.c.endpoint_id))


class JobDetails(Repository):
    """The jobs of a ledger, one at a time."""

    @asked_again
    async def of(self, run: Run, custom_id: str) -> WholeJob | None:
        """The job of `run` that the input calls so, with all that happened to it; None where there is none.

        Of one that ended long ago only the last event may be left, and none of the executions that failed.
        """
        async with self._access.reading() as connection:
            view = self._access.within(connection)
            named = Text("id", Comparison.EQUAL, custom_id)
            page = await JobQueries(view).page(run.id, named, most=1)
            while not page.jobs and not page.is_last:
                page = await JobQueries(view).page(run.id, named, after=page.after, most=1)
            return await _whole(view, run, page.jobs[0]) if page.jobs else None

    @asked_again
    async def numbered(self, run: Run, job: int) -> WholeJob | None:
        """The same of the job of `run` that has this number."""
        async with self._access.reading() as connection:
            view = self._access.within(connection)
            found = await JobQueries(view).numbered(run.id, job)
            return None if found is None else await _whole(view, run, found)


async def _whole(view: Access, run: Run, job: SelectedJob) -> WholeJob:
    events = await History(view).of(job.job)
    sent = await _submissions(view, events)
    segments = await Segments(view).of_job(job.job)
    checkpoints = await Segments(view).checkpoints(job.job)
    failed = await FailedExecutions(view).of_job(job.job)
    own = (row_metadata.c.run_id == run.id) & (row_metadata.c.job_id == job.job)
    return WholeJob(
        run=run.name,
        job=job.row,
        paid_at_most=job.paid_at_most,
        max_attempts=await view.value(select(jobs.c.attempts_max).where(jobs.c.id == job.job)),
        priority=await view.value(select(jobs.c.priority).where(jobs.c.id == job.job)),
        endpoint=await view.value(_ENDPOINT.where(jobs.c.id == job.job)),
        policy=await _policy(view, job.job),
        **await _outcome(view, job.job),
        error=job.message,
        timeline=timeline(events, {each.id: each.remote_id for each in sent}, segments, checkpoints),
        failed_executions=msgspec.convert(failed, list[FailedExecutionView], from_attributes=True),
        submissions=msgspec.convert(sent, list[SubmissionView], from_attributes=True),
        segments=msgspec.convert(segments, list[SegmentView], from_attributes=True),
        checkpoints=msgspec.convert(checkpoints, list[CheckpointView], from_attributes=True),
        metadata=_raw(await view.value(select(row_metadata.c.metadata).where(own))),
        input=await _input(view, job.job),
    )


def _raw(text: bytes | None) -> msgspec.Raw | None:
    return None if text is None else msgspec.Raw(text)


async def _input(view: Access, job: int) -> msgspec.Raw | None:
    query = select(payloads.c.input, payloads.c.packed).where(payloads.c.job_id == job)
    return next((_raw(_unpacked(*row)) for row in await view.rows(query)), None)


async def _policy(view: Access, job: int) -> msgspec.Raw | None:
    """Its line's, with what it was tried again with."""
    query = select(payloads.c.policy, jobs.c.policy)
    query = query.select_from(jobs.join(payloads, payloads.c.job_id == jobs.c.id))
    [(line, own)] = await view.rows(query.where(jobs.c.id == job))
    return _raw(line if own is None else with_own(line, own))


async def _submissions(view: Access, events: Sequence[EventRow]) -> list[SubmissionRow]:
    """They have no index by job, but the events name them."""
    query = select(*columns(SubmissionRow, submissions, endpoint=endpoints.c.endpoint, batch=batches.c.remote_id))
    at = submissions.join(endpoints, endpoints.c.id == submissions.c.endpoint_id)
    query = query.select_from(at.outerjoin(batches, batches.c.id == submissions.c.batch_id))
    query = query.where(submissions.c.id.in_(IN_BATCH)).order_by(submissions.c.id)
    named = {event.submission for event in events if event.submission is not None}
    return await view.structs(SubmissionRow, query, batch_of(named))


_OF_OUTCOME: Final = ("remote_id", "status", "delay_ms", "execution_ms")


async def _outcome(view: Access, job: int) -> dict[str, Any]:
    """How it ended, as fields of `WholeJob`; without its output also where that cannot be unpacked any more."""
    query = select(*(outcomes.c[name] for name in _OF_OUTCOME), outcomes.c.output, outcomes.c.packed)
    for *told, output, packed in await view.rows(query.where(outcomes.c.job_id == job)):
        found = None if output is None else _unpacked(output, packed)
        return {**dict(zip(_OF_OUTCOME, told, strict=True)), "output": found and _json_or_text(found)}
    return {**dict.fromkeys(_OF_OUTCOME), "output": None}


def _json_or_text(output: bytes) -> msgspec.Raw | str:
    try:
        msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return output.decode(errors="replace")
    return msgspec.Raw(output)


def _unpacked(blob: bytes, packed: int) -> bytes | None:
    try:
        return unpack(blob, packed)
    except DamagedError:
        return None


# --- what happened to it


def timeline(
    events: Sequence[EventRow],
    remote_ids: Mapping[int, str | None],
    segments: Sequence[SegmentRow],
    checkpoints: Sequence[CheckpointRow],
) -> list[TimelineStep]:
    """The events of a job, the checkpoints, and what the last report of each segment was; `remote_ids` are what the
    service calls its submissions.
    """
    steps: list[TimelineStep] = []
    own = ""
    for event in events:
        if event.event == Event.REOPENED:
            own = event.detail.settings
        elif event.event == Event.RETRIED and (given := event.detail.settings):
            own = f"{own} and {given}" if own else given
        step = TimelineStep(
            at=event.at,
            after_us=0,
            event=event.event,
            reason=_reason(event),
            class_=event.trouble,
            attempt=event.attempt,
            remote_id=None if event.submission is None else remote_ids.get(event.submission),
            settings=own if own and event.event == Event.CLAIMED else None,
        )
        steps.append(step)
    steps = sorted([*steps, *_news(segments, checkpoints)], key=lambda step: step.at)  # of one moment: as they are here
    whole: list[TimelineStep] = []
    for step in steps:
        before = whole[-1] if whole else step
        whole.append(replace(step, after_us=step.at - before.at, attempt=step.attempt or before.attempt))
    return whole


def _news(segments: Sequence[SegmentRow], checkpoints: Sequence[CheckpointRow]) -> Iterator[TimelineStep]:
    """What the workers of a resumable job told."""

    def told_at(at: int, event: str, what: str) -> TimelineStep:
        return TimelineStep(at=at, after_us=0, event=event, reason=what, class_=None, attempt=0, remote_id=None)

    for kept in checkpoints:
        yield told_at(kept.at, "checkpoint", kept.checkpoint)
    for each in segments:
        if each.begun_at is not None:
            given = "from nothing" if each.given is None else f"from checkpoint {each.given}"
            yield told_at(each.begun_at, "segment", f"{each.segment} begins {given}")
        if each.reported_at is not None:
            share = "" if each.share is None else f"{100 * each.share:.0f} % "
            yield told_at(each.reported_at, "report", f"{share}{each.message or ''}".strip())


def _reason(event: EventRow) -> str:
    """A reason in one line: of the error that a reopened job had, the type and the message."""
    return reason_text(event.code or event.text, replace(event.detail, error=summary_of(event.detail.error)))
