"""How far two clocks are apart, by a date in whole seconds."""

import pytest

from orchestrator.core.service.clock_skew import ahead_us
from orchestrator.units import SECOND_US

DATE = "Thu, 01 Jan 2026 00:00:10 GMT"
STAMPED_AT = 1_767_225_610 * SECOND_US


@pytest.mark.parametrize(
    ("sent_s", "answered_s", "ahead_s"),
    [
        (0.2, 0.4, 0),
        (-5, 5, 0),
        (1.0, 1.5, 0),
        (61, 62, 60),
        (-62, -60, -60),
        (-1, 0, 0),
    ],
)
def test_clocks_agree_where_the_date_can_be_between_question_and_answer(
    sent_s: float, answered_s: float, ahead_s: float
) -> None:
    sent_at, answered_at = (STAMPED_AT + round(each * SECOND_US) for each in (sent_s, answered_s))
    assert ahead_us(DATE, sent_at=sent_at, answered_at=answered_at) == ahead_s * SECOND_US


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Jan 2026 00:00:10 GMT"])
def test_what_is_no_date_says_nothing(date: str | None) -> None:
    assert ahead_us(date, sent_at=STAMPED_AT, answered_at=STAMPED_AT) is None
