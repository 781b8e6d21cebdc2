"""The spans of jobs and flows that have ended. They say when, where and how it ended: nothing of inputs, outputs, texts
of errors, nor the names that people gave to jobs.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger.jobs.history import ENDING
from orchestrator.ledger.monitoring.traced_jobs import TracedEvent, TracedFlow, TracedJob, TracedRun, TracedStage
from orchestrator.telemetry.traces.span_ids import span_id, trace_id
from orchestrator.units import MILLISECOND_US, SECOND_US

_ENDS_ATTEMPT: Final = frozenset(
    {Event.RETRIED, Event.CONTINUED, Event.COMPLETED, Event.ABANDONED, Event.CANCELLED, Event.DEFERRED}
)
_ENDINGS: Final = frozenset(map(Event, ENDING))


class SpanOf(msgspec.Struct, frozen=True, kw_only=True):
    """One span. Times are microseconds UTC."""

    name: str
    trace: int
    number: int
    parent: int | None
    began_at: int
    ended_at: int
    attributes: Mapping[str, str | int | float]
    error_type: str | None = None
    """The class of what it failed with; None where it did not."""


# --- a job


def job_spans(job: TracedJob, place: int) -> list[SpanOf]:
    """The spans of a job that ended by the event at `place`: what happened since it had ended before, or was made."""
    life = _life(job.events, place)
    if not life:
        return []
    end = life[-1]
    claims = [event.at for event in life if event.event is Event.CLAIMED]
    began_at = min(claims[0], end.at) if claims else end.at
    trace, parent = _trace_of(job)
    number = span_id("job", job.run.created_at, job.id, place)
    whole = SpanOf(
        name="job",
        trace=trace,
        number=number,
        parent=parent,
        began_at=began_at,
        ended_at=end.at,
        attributes={
            "orchestrator.run": job.run.name,
            "orchestrator.endpoint": job.endpoint,
            "orchestrator.job": job.id,
            "orchestrator.line": job.line,
            "orchestrator.attempts": len(claims),
            "orchestrator.waited_s": max(0, began_at - _since(job, life)) / SECOND_US,
        },
        error_type=end.trouble,
    )
    return [whole, *_attempts(job, life, trace, number, is_latest=_is_latest(job.events, place))]


def _life(events: Sequence[TracedEvent], place: int) -> list[TracedEvent]:
    """The events up to the one at `place`, since the one before it that ended the job, or had it tried again."""
    life: list[TracedEvent] = []
    for event in events:
        if event.place > place:
            break
        if life and (life[-1].event in _ENDINGS or event.event is Event.REOPENED):
            life = []
        life.append(event)
    return life if life and life[-1].place == place else []


def _is_latest(events: Sequence[TracedEvent], place: int) -> bool:
    """Whether nothing has ended the job since: what it says of its last execution is of this one."""
    return not any(event.place > place and event.event in _ENDINGS for event in events)


def _since(job: TracedJob, life: Sequence[TracedEvent]) -> int:
    """From when on it waited to be sent."""
    return job.run.created_at if life[0].event is Event.CLAIMED else life[0].at


def _trace_of(job: TracedJob) -> tuple[int, int | None]:
    """The trace of a job, and the span in it that it belongs to."""
    run = job.run
    if run.flow is None:
        return trace_id("job", run.created_at, job.id), None
    return trace_id("flow", run.flow_made_at, run.flow), stage_span_id(run)


def stage_span_id(run: TracedRun) -> int:
    """The number of the span of the stage that `run` carries out."""
    return span_id("stage", run.flow_made_at, run.flow, run.stage, run.again)


def _attempts(
    job: TracedJob, life: Sequence[TracedEvent], trace: int, parent: int, *, is_latest: bool
) -> Iterator[SpanOf]:
    claimed: TracedEvent | None = None
    for event in life:
        if event.event is Event.CLAIMED:
            claimed = event
        elif claimed is not None and event.event in _ENDS_ATTEMPT:
            is_last = is_latest and event is life[-1]
            execution_ms = job.execution_ms if is_last else job.failed_ms.get(event.attempt)
            number = span_id("attempt", job.run.created_at, job.id, claimed.place)
            whole = SpanOf(
                name="attempt",
                trace=trace,
                number=number,
                parent=parent,
                began_at=min(claimed.at, event.at),
                ended_at=event.at,
                attributes={"orchestrator.attempt": event.attempt, "orchestrator.ended": event.event.value},
                error_type=event.trouble,
            )
            yield whole
            yield from _parts(whole, job.delay_ms if is_last else None, execution_ms)
            claimed = None


def _parts(attempt: SpanOf, delay_ms: int | None, execution_ms: int | None) -> Iterator[SpanOf]:
    """How long it waited at the service, and was executed. These do not go beyond the attempt, whatever was told."""
    if execution_ms is None:
        return
    whole_us = attempt.ended_at - attempt.began_at
    executed_us = min(whole_us, execution_ms * MILLISECOND_US)
    rest_us = whole_us - executed_us
    queued_us = rest_us if delay_ms is None else min(rest_us, delay_ms * MILLISECOND_US)
    between = attempt.began_at + queued_us
    for name, began_at, ended_at in (
        ("queue", attempt.began_at, between),
        ("execution", between, between + executed_us),
    ):
        yield SpanOf(
            name=name,
            trace=attempt.trace,
            number=span_id(name, attempt.number),
            parent=attempt.number,
            began_at=began_at,
            ended_at=ended_at,
            attributes={},
        )


# --- a flow


def flow_spans(flow: TracedFlow, stages: Sequence[TracedStage]) -> list[SpanOf]:
    """The spans of a flow that has ended, and of its stages."""
    trace, number = trace_id("flow", flow.made_at, flow.name), span_id("flow", flow.made_at, flow.name)
    began_at = min(flow.ended_at, *(stage.began_at for stage in stages), flow.started_at or flow.ended_at)
    whole = SpanOf(
        name=f"flow {flow.pipeline}",
        trace=trace,
        number=number,
        parent=None,
        began_at=began_at,
        ended_at=flow.ended_at,
        attributes={
            "orchestrator.flow": flow.name,
            "orchestrator.pipeline": flow.pipeline,
            "orchestrator.ended": flow.state.value,
        },
        error_type=flow.state.value if flow.state in (FlowState.FAILED, FlowState.PARTIAL) else None,
    )
    return [whole, *(_stage(flow, stage, whole) for stage in stages)]


def _stage(flow: TracedFlow, stage: TracedStage, whole: SpanOf) -> SpanOf:
    ended_at = stage.last_ended_at or flow.ended_at
    return SpanOf(
        name=f"stage {stage.stage}",
        trace=whole.trace,
        number=span_id("stage", flow.made_at, flow.name, stage.stage, stage.again),
        parent=whole.number,
        began_at=min(stage.began_at, ended_at),
        ended_at=ended_at,
        attributes={
            "orchestrator.pipeline": flow.pipeline,
            "orchestrator.stage": stage.stage,
            "orchestrator.again": stage.again,
        },
    )
