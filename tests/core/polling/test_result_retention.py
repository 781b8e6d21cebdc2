from orchestrator.core.polling.result_retention import RetentionEstimate

MINUTE = 60_000_000
AGREED = 30 * MINUTE


def test_results_that_are_gone_when_they_are_asked_for_late_are_counted_on_for_as_long_as_they_were_there() -> None:
    estimate = RetentionEstimate()
    estimate.there(4 * MINUTE, AGREED)
    assert estimate.gone(6 * MINUTE, AGREED) is None
    assert estimate.gone(20 * MINUTE, AGREED) is None
    assert estimate.retention_us(AGREED) == AGREED
    assert estimate.gone(11 * MINUTE, AGREED) == 6 * MINUTE
    assert estimate.retention_us(AGREED) == 4 * MINUTE
    assert estimate.retention_us(3 * MINUTE) == 3 * MINUTE, "what was agreed is the most"


def test_where_none_was_seen_late_a_twelfth_of_what_was_agreed_is_counted_on() -> None:
    estimate = RetentionEstimate()
    estimate.there(MINUTE, AGREED)
    for _ in range(3):
        estimate.gone(6 * MINUTE, AGREED)
    assert estimate.retention_us(AGREED) == AGREED // 12
    assert estimate.retention_us(20_000_000) == 5_000_000, "or five seconds"


def test_jobs_that_are_missing_whenever_they_are_asked_for_say_nothing() -> None:
    estimate = RetentionEstimate()
    for _ in range(50):
        assert estimate.gone(AGREED // 12 - 1, AGREED) is None
    for n in range(600):  # one in ten
        after_us = (3 + n * 7 % 22) * MINUTE
        if n % 10:
            estimate.there(after_us, AGREED)
        else:
            assert estimate.gone(after_us, AGREED) is None
    assert estimate.retention_us(AGREED) == AGREED


def test_a_service_that_forgets_still_earlier_is_believed_still_less_and_what_came_too_late_anyway_says_nothing() -> (
    None
):
    estimate = RetentionEstimate()
    estimate.there(9 * MINUTE, AGREED)
    for _ in range(3):
        estimate.gone(12 * MINUTE, AGREED)
    for _ in range(3):
        assert estimate.gone(10 * MINUTE, AGREED) is None
    assert estimate.retention_us(AGREED) == 9 * MINUTE
    assert [estimate.gone(7 * MINUTE, AGREED) for _ in range(3)] == [None, None, 7 * MINUTE]
    assert estimate.retention_us(AGREED) == AGREED // 12
