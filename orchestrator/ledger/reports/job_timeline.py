"""The timeline of a job: its events, and where it is resumable, what its workers told."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from orchestrator.core.jobs.job_story import TimelineStep
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.reasons import reason_text
from orchestrator.core.text.error_text import summary_of
from orchestrator.ledger.jobs.history import EventRow
from orchestrator.ledger.jobs.segments import CheckpointRow, SegmentRow


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
