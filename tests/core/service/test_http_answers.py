"""What the headers of an answer say of time: how long the service wants to be left alone, and what its clock says."""

import pytest

from orchestrator.core.limits.service_pauses import RETRY_AFTER_S_MAX
from orchestrator.core.service.http_answers import Answer, clock_ahead_us, retry_after_s
from orchestrator.units import SECOND_US

AT = 946_684_800 * SECOND_US
DATE = "Thu, 01 Jan 2026 00:00:10 GMT"
STAMPED_AT = 1_767_225_610 * SECOND_US


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3),
        (" 1.5 ", 1.5),
        ("Sat, 01 Jan 2000 00:01:00 GMT", 60),
        ("Fri, 31 Dec 1999 23:00:00 GMT", 0),
        ("", None),
        ("-3", None),
        ("inf", None),
        ("soon", None),
        ("9" * 400, None),
        ("Sat, 99 Jan 2000 00:01:00 GMT", None),
    ],
)
def test_retry_after_comes_as_seconds_or_as_a_date(header: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": header}, AT) == seconds


def test_who_says_nothing_wishes_nothing() -> None:
    assert retry_after_s({}, AT) is None


def test_a_date_to_wait_for_is_told_by_the_clock_that_stamped_the_answer() -> None:
    """Ours may go an hour behind it, and would wait for an hour and a minute."""
    wish = {"retry-after": "Sat, 01 Jan 2000 01:01:00 GMT"}
    assert retry_after_s({**wish, "date": "Sat, 01 Jan 2000 01:00:00 GMT"}, AT) == 60
    assert retry_after_s({**wish, "date": "soon"}, AT) == RETRY_AFTER_S_MAX


@pytest.mark.parametrize("header", ["999999999", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_nobody_means_to_be_asked_again_in_the_next_century(header: str) -> None:
    assert retry_after_s({"retry-after": header}, STAMPED_AT) == RETRY_AFTER_S_MAX


def ahead_us(date: str | None, sent_at: int, answered_at: int) -> int | None:
    headers = {} if date is None else {"date": date}
    return clock_ahead_us(Answer(status=200, body=b"", sent_at=sent_at, answered_at=answered_at, headers=headers))


@pytest.mark.parametrize(
    ("sent_s", "answered_s", "ahead_s"),
    [(0.2, 0.4, 0), (-5, 5, 0), (1.0, 1.5, 0), (61, 62, 60), (-62, -60, -60), (-1, 0, 0)],
)
def test_clocks_agree_where_the_date_can_be_between_question_and_answer(
    sent_s: float, answered_s: float, ahead_s: float
) -> None:
    sent_at, answered_at = (STAMPED_AT + round(each * SECOND_US) for each in (sent_s, answered_s))
    assert ahead_us(DATE, sent_at, answered_at) == ahead_s * SECOND_US


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 99 Jan 2026 00:00:10 GMT"])
def test_what_is_no_date_says_nothing(date: str | None) -> None:
    assert ahead_us(date, STAMPED_AT, STAMPED_AT) is None


def test_an_answer_can_have_another_body_and_is_the_same_where_it_is_no_other() -> None:
    answer = Answer(status=200, body=b"a secret", sent_at=1, answered_at=2)
    changed = answer.with_body(b"[hidden]")
    assert (changed.body, changed.status, changed.sent_at, changed.answered_at) == (b"[hidden]", 200, 1, 2)
    assert answer.with_body(answer.body) is answer
