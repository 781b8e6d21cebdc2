"""Whether requests get through, and for how long they have not."""

from orchestrator.core.reach import SHOWN_AFTER_US, STALE_US, Reach

SECOND = 1_000_000


def test_nothing_is_said_before_anything_failed_and_after_an_answer() -> None:
    reach = Reach()
    assert reach.unreachable_us(0) is None
    reach.failed(5 * SECOND)
    reach.failed(20 * SECOND)
    reach.answered()
    assert reach.unreachable_us(30 * SECOND) is None


def test_the_time_counts_from_the_first_failure_since_an_answer() -> None:
    reach = Reach()
    reach.failed(5 * SECOND)
    reach.answered()
    reach.failed(100 * SECOND)
    reach.failed(160 * SECOND)
    assert reach.unreachable_us(170 * SECOND) == 70 * SECOND


def test_a_single_failure_is_not_spoken_of_at_once() -> None:
    reach = Reach()
    reach.failed(SECOND)
    assert reach.unreachable_us(SECOND + SHOWN_AFTER_US - 1) is None
    assert reach.unreachable_us(SECOND + SHOWN_AFTER_US) == SHOWN_AFTER_US


def test_what_nobody_has_tried_for_long_is_not_known() -> None:
    reach = Reach()
    reach.failed(SECOND)
    assert reach.unreachable_us(SECOND + STALE_US) == STALE_US
    assert reach.unreachable_us(SECOND + STALE_US + 1) is None
