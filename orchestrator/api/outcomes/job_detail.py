"""One job with all that was done with it: its submissions, and its events as a timeline."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec.structs import replace

from orchestrator.api.outcomes.job_queries import job_row
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.clock import SystemClock
from orchestrator.core.diagnosis.failed_executions import FailedExecutionView
from orchestrator.core.filters.filter_parser import cluster_name
from orchestrator.core.jobs.job_story import CheckpointView, SegmentView, SubmissionView, TimelineStep
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import reason_text
from orchestrator.core.text.error_text import summary_of
from orchestrator.errors import UsageError
from orchestrator.ledger import read_ledger
from orchestrator.ledger.jobs.history import EventRow
from orchestrator.ledger.reports.job_detail import JobDetail
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.jobs import WholeJob


async def job_show(ledger: Path, name: str | None, custom_id: str) -> WholeJob:
    """The job `custom_id` of the run `name`, with all that happened to it. Raises `UsageError` without such a job."""
    async with read_ledger(ledger, clock=SystemClock()) as opened:
        run = await run_named(opened, name)
        detail = await opened.reports.job_details.of(run.id, custom_id)
        if detail is None:
            raise UsageError(f"{run.name} has no job {custom_id!r}; its jobs: orchestrator jobs list {run.name}")
        return whole_of(run, detail)


def whole_of(run: Run, detail: JobDetail) -> WholeJob:
    """The job that `detail` is of, with all that happened to it."""
    outcome = detail.outcome
    return WholeJob(
        run=run.name,
        job=job_row(detail.job),
        paid_at_most=detail.job.paid_at_most,
        max_attempts=detail.attempts_max,
        priority=detail.priority,
        endpoint=detail.endpoint,
        policy=None if detail.policy is None else msgspec.Raw(detail.policy),
        remote_id=None if outcome is None else outcome.remote_id,
        status=None if outcome is None else outcome.status,
        delay_ms=None if outcome is None else outcome.delay_ms,
        execution_ms=None if outcome is None else outcome.execution_ms,
        error=detail.job.message,
        timeline=_timeline(detail),
        failed_executions=[
            FailedExecutionView(
                attempt=each.attempt,
                at=each.at,
                class_=each.trouble,
                cluster=cluster_name(each.error_key),
                error=each.message,
                execution_ms=each.execution_ms,
            )
            for each in detail.failed_executions
        ],
        submissions=msgspec.convert(detail.submissions, list[SubmissionView], from_attributes=True),
        segments=[
            SegmentView(
                segment=each.segment,
                given=f"{each.given_segment}.{each.given_seq}" if each.given_segment else None,
                begun_at=each.begun_at,
                share=each.share,
                message=each.message,
                reported_at=each.reported_at,
                execution_ms=each.execution_ms,
            )
            for each in detail.segments
        ],
        checkpoints=[
            CheckpointView(checkpoint=f"{each.segment}.{each.seq}", at=each.at) for each in detail.checkpoints
        ],
        metadata=None if detail.metadata is None else msgspec.Raw(detail.metadata),
        input=None if detail.input is None else msgspec.Raw(detail.input),
        output=None if outcome is None or outcome.output is None else _json_or_text(outcome.output),
    )


def _timeline(detail: JobDetail) -> list[TimelineStep]:
    """The events of a job, and where it is resumable, the checkpoints and what the last report of each segment was."""
    named = {each.id: each.remote_id for each in detail.submissions}
    steps: list[TimelineStep] = []
    own = ""
    for event in detail.events:
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
            remote_id=None if event.submission is None else named.get(event.submission),
            settings=own if own and event.event == Event.CLAIMED else None,
        )
        steps.append(step)
    steps = sorted([*steps, *_news(detail)], key=lambda step: step.at)  # of one moment: as they are here
    whole: list[TimelineStep] = []
    for step in steps:
        before = whole[-1] if whole else step
        whole.append(replace(step, after_us=step.at - before.at, attempt=step.attempt or before.attempt))
    return whole


def _news(detail: JobDetail) -> Iterator[TimelineStep]:
    """What the workers of a resumable job told."""

    def told_at(at: int, event: str, what: str) -> TimelineStep:
        return TimelineStep(at=at, after_us=0, event=event, reason=what, class_=None, attempt=0, remote_id=None)

    for kept in detail.checkpoints:
        yield told_at(kept.at, "checkpoint", f"{kept.segment}.{kept.seq}")
    for each in detail.segments:
        if each.begun_at is not None:
            given = f"from checkpoint {each.given_segment}.{each.given_seq}" if each.given_segment else "from nothing"
            yield told_at(each.begun_at, "segment", f"{each.segment} begins {given}")
        if each.reported_at is not None:
            share = "" if each.share is None else f"{100 * each.share:.0f} % "
            yield told_at(each.reported_at, "report", f"{share}{each.message or ''}".strip())


def _reason(event: EventRow) -> str:
    """A reason in one line: of the error that a reopened job had, the type and the message."""
    return reason_text(event.code or event.text, replace(event.detail, error=summary_of(event.detail.error)))


def _json_or_text(output: bytes) -> msgspec.Raw | str:
    try:
        msgspec.json.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return output.decode(errors="replace")
    return msgspec.Raw(output)
