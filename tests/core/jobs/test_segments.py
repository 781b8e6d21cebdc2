"""What workers of long jobs report, what the end of a segment makes of its job, and what the next one is given."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.run_counters import counters
from orchestrator.core.jobs.segments import (
    CHECKPOINT_BYTES_MAX,
    MESSAGE_CHARS_MAX,
    NO_PROGRESS,
    Continue,
    Exhausted,
    Mark,
    Report,
    Resume,
    SegmentEnd,
    SegmentLimits,
    SegmentProgress,
    after_segment,
    given_back,
    is_same,
    long_policy,
    report_of,
    resumed_input,
    segment_end,
    soft_us,
    until_us,
)
from orchestrator.core.jobs.transitions import continued
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.job_record import Record
from orchestrator.core.text.durations import Policy
from orchestrator.units import MINUTE_US, SECOND_US

HOUR_US = 60 * MINUTE_US
DAY_MS = 86_400_000


def told(output: bytes | None, status: str = "IN_PROGRESS", execution_ms: int | None = None) -> Record:
    return Record(remote_id="r", status=status, output=output, execution_ms=execution_ms)


def test_a_report_says_how_far_a_job_is_and_what_another_worker_can_go_on_from() -> None:
    report = report_of(told(b'{"seq":41,"progress":0.4,"message":"epoch 4","checkpoint":{"epoch": 4}}'))
    assert report == Report(seq=41, share=0.4, message="epoch 4", checkpoint=b'{"epoch":4}')


@pytest.mark.parametrize(
    "output",
    [
        None,
        b"41",
        b'"half"',
        b"{}",
        b'{"progress":0.5}',
        b'{"seq":-1}',
        b'{"seq":true}',
        b'{"seq":1.5}',
        b'{"seq":"1"}',
        b'{"seq":9007199254740992}',
        b"[" * 100_000,
    ],
)
def test_what_has_no_usable_seq_is_no_report(output: bytes | None) -> None:
    assert report_of(told(output)) is None


@pytest.mark.parametrize("share", [b"-0.1", b"1.1", b"true", b'"half"', b"null"])
def test_a_share_that_is_none_is_left_out(share: bytes) -> None:
    report = report_of(told(b'{"seq":1,"progress":%b,"message":5,"checkpoint":null}' % share))
    assert report == Report(seq=1)


def test_long_messages_are_cut_and_large_checkpoints_are_not_taken() -> None:
    large = b'"' + b"x" * CHECKPOINT_BYTES_MAX + b'"'
    report = report_of(told(b'{"seq":1,"message":"%b","checkpoint":%b}' % (b"m" * 1_000, large)))
    assert report == Report(seq=1, message="m" * MESSAGE_CHARS_MAX, too_large=CHECKPOINT_BYTES_MAX + 2)


@pytest.mark.parametrize(
    ("status", "output", "is_given_back"),
    [
        ("COMPLETED", b'{"unfinished":true,"checkpoint":{"n":1}}', True),
        ("COMPLETED", b'{"unfinished":true}', True),
        ("COMPLETED", b'{"unfinished":false}', False),
        ("COMPLETED", b'{"unfinished":1}', False),
        ("COMPLETED", b"[1]", False),
        ("COMPLETED", None, False),
        ("FAILED", b'{"unfinished":true}', False),
    ],
)
def test_a_job_is_given_back_by_an_output_that_says_so(status: str, output: bytes | None, is_given_back: bool) -> None:
    assert (given_back(told(output, status)) is not None) is is_given_back


def test_two_checkpoints_are_the_same_whatever_the_order_of_their_keys() -> None:
    assert is_same(b'{"a":1,"b":2}', b'{"b":2,"a":1}')
    assert not is_same(b'{"a":1}', b'{"a":2}')
    assert not is_same(None, b"1")
    assert is_same(None, None)
    assert is_same(b"1e999", b"1e999")
    assert not is_same(b"1e999", b"2e999")


# --- the end of a segment

GIVEN = SegmentProgress(segment=3, given=Mark(2, 7), newest=Mark(2, 7), checkpoint=b'{"n":7}', executed_ms=5_000)
AHEAD = msgspec.structs.replace(GIVEN, newest=Mark(3, 1), checkpoint=b'{"n":8}')
BACK = b'{"unfinished":true,"checkpoint":%b}'


@pytest.mark.parametrize(
    ("standing", "record", "has_progressed"),
    [
        (GIVEN, told(None, "FAILED"), False),
        (GIVEN, None, False),
        (GIVEN, told(BACK % b'{"n":7}', "COMPLETED"), False),
        (GIVEN, told(BACK % b"null", "COMPLETED"), False),
        (GIVEN, told(BACK % b'{"n":8}', "COMPLETED"), True),
        (AHEAD, told(None, "FAILED"), True),
        (AHEAD, None, True),
        (AHEAD, told(BACK % b'{"n":8}', "COMPLETED"), True),
        (AHEAD, told(BACK % b"null", "COMPLETED"), True),
        (SegmentProgress(segment=1), told(BACK % b'{"n":1}', "COMPLETED"), True),
        (SegmentProgress(segment=1), told(BACK % b"null", "COMPLETED"), False),
    ],
)
def test_progress_is_a_checkpoint_that_is_newer_than_the_given_one_and_another(
    standing: SegmentProgress, record: Record | None, has_progressed: bool
) -> None:
    assert segment_end(standing, record, unfinished_at=None).has_progressed is has_progressed


def test_the_execution_is_what_the_service_says_or_else_what_was_seen_of_it() -> None:
    standing = msgspec.structs.replace(GIVEN, begun_at=10 * SECOND_US)
    said = segment_end(standing, told(None, "FAILED", execution_ms=700), unfinished_at=12 * SECOND_US)
    assert (said.execution_ms, said.executed_ms) == (700, 5_700)
    seen = segment_end(standing, None, unfinished_at=12 * SECOND_US)
    assert (seen.execution_ms, seen.executed_ms) == (2_000, 7_000)
    assert segment_end(standing, None, unfinished_at=None).execution_ms == 0
    assert segment_end(GIVEN, None, unfinished_at=12 * SECOND_US).execution_ms == 0


def end(*, has_progressed: bool, is_given_back: bool = False, executed_ms: int = 0) -> SegmentEnd:
    report = Report(seq=1) if is_given_back else None
    return SegmentEnd(has_progressed=has_progressed, report=report, execution_ms=0, executed_ms=executed_ms)


LIMITS = SegmentLimits(segments=5, execution_us=HOUR_US)


@pytest.mark.parametrize(
    ("ended", "segments", "follows"),
    [
        (end(has_progressed=True, is_given_back=True), 1, Continue()),
        (end(has_progressed=False, is_given_back=True), 1, Exhausted(NO_PROGRESS)),
        (end(has_progressed=True), 1, Continue()),
        (end(has_progressed=False), 1, None),
        (end(has_progressed=True), 4, Continue()),
        (end(has_progressed=True), 5, Exhausted("out of segments (5)")),
        (end(has_progressed=False), 5, Exhausted("out of segments (5)")),
        (end(has_progressed=True, executed_ms=3_599_999), 1, Continue()),
        (
            end(has_progressed=True, executed_ms=3_600_000),
            1,
            Exhausted("out of execution time (1 h in all its segments)"),
        ),
    ],
)
def test_what_follows_a_segment_without_a_result(
    ended: SegmentEnd, segments: int, follows: Continue | Exhausted | None
) -> None:
    assert after_segment(ended, segments=segments, limits=LIMITS) == follows


def test_without_a_limit_execution_never_runs_out() -> None:
    assert after_segment(end(has_progressed=True, executed_ms=10**12), segments=1, limits=SegmentLimits()) == Continue()


# --- what a segment is given


@pytest.mark.parametrize(
    ("policy", "ttl_ms"),
    [
        (Policy(), 600_000 + DAY_MS),
        (Policy(execution_timeout_ms=3 * DAY_MS), 4 * DAY_MS),
        (Policy(execution_timeout_ms=7 * DAY_MS), 7 * DAY_MS),
        (Policy(execution_timeout_ms=DAY_MS, ttl_ms=2 * DAY_MS), 2 * DAY_MS),
    ],
)
def test_a_ttl_that_nobody_chose_leaves_a_day_for_the_queue(policy: Policy, ttl_ms: int) -> None:
    assert long_policy(policy) == Policy(execution_timeout_ms=policy.execution_timeout_ms, ttl_ms=ttl_ms)


@pytest.mark.parametrize(
    ("timeout_ms", "executed_ms", "left_ms"),
    [(None, 0, 600_000), (2 * DAY_MS, DAY_MS // 2, DAY_MS // 2), (2 * DAY_MS, 2 * DAY_MS, 5_000)],
)
def test_a_segment_may_take_no_longer_than_is_left(timeout_ms: int | None, executed_ms: int, left_ms: int) -> None:
    found = long_policy(Policy(execution_timeout_ms=timeout_ms), executed_ms=executed_ms, execution_us=DAY_MS * 1_000)
    assert found.execution_timeout_ms == left_ms


@pytest.mark.parametrize(
    ("timeout_ms", "soft"),
    [(None, 570 * SECOND_US), (100_000, 95 * SECOND_US), (DAY_MS, 24 * HOUR_US - 10 * MINUTE_US)],
)
def test_a_worker_ends_by_itself_a_twentieth_before_its_time_and_ten_minutes_at_most(
    timeout_ms: int | None, soft: int
) -> None:
    assert soft_us(Policy(execution_timeout_ms=timeout_ms)) == soft


def test_it_ends_in_time_for_its_result_to_be_collected() -> None:
    assert until_us(24 * HOUR_US) == 24 * HOUR_US - 35 * MINUTE_US
    assert until_us(40 * MINUTE_US) == 20 * MINUTE_US


@given(st.dictionaries(st.sampled_from(["a", "b", "é"]), st.integers() | st.none() | st.lists(st.booleans())))
def test_what_a_segment_is_given_is_spliced_into_its_input(input_: dict[str, object]) -> None:
    text = msgspec.json.encode(input_)
    resume = Resume(segment=2, checkpoint=b'{"n": 1}', executed_ms=5)
    spliced = resumed_input(text, resume, key="k", soft_us=1_500_000, until=7_000_000)
    given_ = {"key": "k", "segment": 2, "checkpoint": {"n": 1}, "soft_s": 1.5, "until": 7}
    assert msgspec.json.decode(spliced) == {**input_, "resume": given_}
    assert spliced.startswith(text[:-1])


def test_a_first_segment_is_given_no_checkpoint() -> None:
    spliced = resumed_input(b'{ "a": 1 }', Resume(1, None, 0), key="k", soft_us=0, until=0)
    assert msgspec.json.decode(spliced)["resume"]["checkpoint"] is None


@pytest.mark.parametrize(
    ("trouble", "counted"),
    [
        (None, ("continued_segments",)),
        (FailureClass.LOST, ("continued_segments", "lost")),
        (FailureClass.EXPIRED, ("continued_segments", "expired")),
        (FailureClass.FAILED, ("continued_segments", "failed_executions", "retried_executions")),
    ],
)
def test_a_segment_that_is_continued_counts_and_so_does_what_ended_it(
    trouble: FailureClass | None, counted: tuple[str, ...]
) -> None:
    job = Job(id=1, run=1, endpoint=1, state=State.OUTSTANDING, submission=1, attempt=3, failures=2, lost=1, segment=3)
    step = continued(job, end(has_progressed=True), due_at=5, reason="r", at=4, trouble=trouble)
    assert counters(step) == counted
    after = step.after
    assert (after.state, after.failures, after.lost, after.attempt, after.due_at) == (State.QUEUED, 0, 0, 3, 5)
