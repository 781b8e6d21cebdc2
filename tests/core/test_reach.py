"""Whether requests get through, and for how long they have not."""

from orchestrator.core.reach import SHOWN_AFTER_US, STALE_US, Reach

SECOND = 1_000_000


def refused(reach: Reach, at_s: int) -> None:
    reach.failed(at_s * SECOND, at_s * SECOND)


def test_nothing_is_said_before_anything_failed_and_after_an_answer() -> None:
    reach = Reach()
    assert reach.unreachable_us(0) is None
    refused(reach, 5)
    refused(reach, 20)
    reach.answered(21 * SECOND)
    assert reach.unreachable_us(30 * SECOND) is None


def test_the_time_counts_from_the_first_failure_since_an_answer() -> None:
    reach = Reach()
    refused(reach, 5)
    reach.answered(6 * SECOND)
    refused(reach, 100)
    refused(reach, 160)
    assert reach.unreachable_us(170 * SECOND) == 70 * SECOND


def test_a_request_that_timed_out_tells_of_the_time_since_it_was_sent_or_another_was_answered() -> None:
    reach = Reach()
    reach.failed(100 * SECOND, 130 * SECOND)
    assert reach.unreachable_us(131 * SECOND) == 31 * SECOND
    reach.answered(140 * SECOND)
    reach.failed(135 * SECOND, 165 * SECOND)
    assert reach.unreachable_us(165 * SECOND) == 25 * SECOND


def test_a_single_failure_is_not_spoken_of_at_once() -> None:
    reach = Reach()
    refused(reach, 1)
    assert reach.unreachable_us(SECOND + SHOWN_AFTER_US - 1) is None
    assert reach.unreachable_us(SECOND + SHOWN_AFTER_US) == SHOWN_AFTER_US


def test_what_nobody_has_tried_for_long_is_not_known() -> None:
    reach = Reach()
    refused(reach, 1)
    assert reach.unreachable_us(SECOND + STALE_US) == STALE_US
    assert reach.unreachable_us(SECOND + STALE_US + 1) is None
