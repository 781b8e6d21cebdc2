"""The spans of a job and of a flow: when, where and how it ended, under numbers that stay."""

from collections.abc import Mapping

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.ledger.monitoring.traced_jobs import TracedEvent, TracedFlow, TracedJob, TracedRun, TracedStage
from orchestrator.telemetry.traces.span_ids import is_sampled, span_id, trace_id
from orchestrator.telemetry.traces.spans import SpanOf, flow_spans, job_spans
from orchestrator.units import SECOND_US

S = SECOND_US
RUN = TracedRun(id=1, name="night", created_at=0, flow=None, flow_made_at=None, pipeline=None, stage=None, again=None)
OF_FLOW = TracedRun(id=2, name="p@1/s", created_at=0, flow="p@1", flow_made_at=5, pipeline="p", stage="s", again=1)


def a_job(
    *events: tuple[float, Event, int, str | None],
    run: TracedRun = RUN,
    failed_ms: Mapping[int, int | None] | None = None,
    delay_ms: int | None = None,
    execution_ms: int | None = None,
) -> TracedJob:
    """Events by seconds, event, attempt and trouble; their places are 1, 2 ..."""
    return TracedJob(
        id=7,
        line=3,
        endpoint="ep",
        run=run,
        events=[
            TracedEvent(place=place, at=int(at * S), event=event, attempt=attempt, trouble=trouble)
            for place, (at, event, attempt, trouble) in enumerate(events, 1)
        ],
        failed_ms=failed_ms or {},
        delay_ms=delay_ms,
        execution_ms=execution_ms,
    )


RETRIED = (
    (10, Event.CLAIMED, 1, None),
    (11, Event.ACCEPTED, 1, None),
    (20, Event.RETRIED, 1, "timed_out"),
    (25, Event.CLAIMED, 2, None),
    (26, Event.ACCEPTED, 2, None),
    (40, Event.COMPLETED, 2, None),
)


def told(spans: list[SpanOf]) -> list[tuple[str, float, float, str | None]]:
    return [(span.name, span.began_at / S, span.ended_at / S, span.error_type) for span in spans]


def test_a_job_has_its_attempts_and_these_their_parts() -> None:
    job = a_job(*RETRIED, failed_ms={1: 4000}, delay_ms=2000, execution_ms=5000)
    spans = job_spans(job, 6)
    assert told(spans) == [
        ("job", 10, 40, None),
        ("attempt", 10, 20, "timed_out"),
        ("queue", 10, 16, None),
        ("execution", 16, 20, None),
        ("attempt", 25, 40, None),
        ("queue", 25, 27, None),
        ("execution", 27, 32, None),
    ]
    job_span, first, queue, *_ = spans
    assert (job_span.parent, first.parent, queue.parent) == (None, job_span.number, first.number)
    assert {span.trace for span in spans} == {trace_id("job", 0, 7)}
    assert len({span.number for span in spans}) == len(spans)
    assert job_span.attributes["orchestrator.waited_s"] == 10
    assert job_span.attributes["orchestrator.attempts"] == 2


def test_a_job_of_a_flow_belongs_to_its_stage() -> None:
    [job, *_] = job_spans(a_job(*RETRIED, run=OF_FLOW), 6)
    flow = TracedFlow(
        id=1, name="p@1", pipeline="p", made_at=5, started_at=8 * S, ended_at=60 * S, state=FlowState.PARTIAL
    )
    whole, stage = flow_spans(flow, [TracedStage(stage="s", again=1, began_at=9 * S, run=2, last_ended_at=50 * S)])
    assert (job.trace, job.parent) == (whole.trace, stage.number)
    assert stage.parent == whole.number
    assert told([whole, stage]) == [("flow p", 8, 60, "partial"), ("stage s", 9, 50, None)]


def test_what_was_told_of_an_execution_never_goes_beyond_the_attempt() -> None:
    job = a_job((10, Event.CLAIMED, 1, None), (12, Event.COMPLETED, 1, None), delay_ms=9_000, execution_ms=9_000)
    assert told(job_spans(job, 2))[2:] == [("queue", 10, 10, None), ("execution", 10, 12, None)]


def test_clocks_that_were_set_back_make_no_span_end_before_it_began() -> None:
    job = a_job((10, Event.CLAIMED, 1, None), (4, Event.COMPLETED, 1, None), execution_ms=100)
    for span in job_spans(job, 2):
        assert span.began_at <= span.ended_at


def test_a_job_that_is_tried_again_ends_again_under_another_number_in_the_same_trace() -> None:
    job = a_job(
        (10, Event.CLAIMED, 1, None),
        (20, Event.ABANDONED, 1, "failed"),
        (50, Event.REOPENED, 0, None),
        (60, Event.CLAIMED, 1, None),
        (70, Event.COMPLETED, 1, None),
        execution_ms=3000,
    )
    before, after = job_spans(job, 2), job_spans(job, 5)
    assert told(before) == [("job", 10, 20, "failed"), ("attempt", 10, 20, "failed")]  # its time is no longer known
    assert told(after)[:2] == [("job", 60, 70, None), ("attempt", 60, 70, None)]
    assert after[0].attributes["orchestrator.waited_s"] == 10
    assert before[0].trace == after[0].trace
    assert before[0].number != after[0].number


def test_numbers_are_the_same_however_much_has_happened_since() -> None:
    before = job_spans(a_job(*RETRIED), 6)
    after = job_spans(a_job(*RETRIED, (90, Event.REOPENED, 0, None), (95, Event.CANCELLED, 0, "cancelled")), 6)
    assert [(span.trace, span.number) for span in before] == [(span.trace, span.number) for span in after]


def test_a_job_that_was_never_sent_has_no_attempt() -> None:
    assert told(job_spans(a_job((30, Event.CANCELLED, 0, "cancelled")), 1)) == [("job", 30, 30, "cancelled")]


def test_of_a_job_whose_events_are_gone_there_is_nothing_to_tell() -> None:
    assert job_spans(a_job(*RETRIED), 99) == []


def test_the_same_jobs_are_sampled_whoever_asks_and_about_as_many_as_were_asked_for() -> None:
    chosen = [job for job in range(20_000) if is_sampled(1, job, 0.01)]
    assert 120 < len(chosen) < 280
    assert set(chosen) <= {job for job in range(20_000) if is_sampled(1, job, 0.02)}
    assert all(is_sampled(1, job, 1.0) for job in range(500))
    assert not any(is_sampled(1, job, 0.0) for job in range(500))


def test_numbers_are_those_of_every_version() -> None:
    """Another way to make them would send what is under way a second time, under other numbers."""
    assert trace_id("job", 0, 7) == 0xB9B2C9B1E3DE8073FB3FE87896A2FA10
    assert span_id("job", 0, 7, 6) == 0x5B5541BDFDCB949F
