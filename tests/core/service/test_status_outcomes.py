"""What the result of a `/status` means: one test for each row of the tables."""

import math

import msgspec
import pytest
from hypothesis import example, given

from orchestrator.core.service.answers import POINTLESS, Answer, Pointless, Trouble
from orchestrator.core.service.records import read_record
from orchestrator.core.service.run_outcomes import (
    OF_ANOTHER,
    Deferred,
)
from orchestrator.core.service.status_outcomes import (
    NO_RECORD,
    AskAgain,
    Gone,
    NoNews,
    StatusOutcome,
    Terminal,
    Unfinished,
    status_outcome,
    trouble_of,
)
from orchestrator.errors import NotSent, Unanswered
from tests.core.service.given_answers import HTML, answer, results


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"])
def test_a_terminal_status_is_finished(status: str) -> None:
    body = msgspec.json.encode({"id": "ab12-u1", "status": status})
    outcome = status_outcome(answer(200, body), "ab12-u1")

    assert isinstance(outcome, Terminal)
    assert outcome.record == read_record(body)


@pytest.mark.parametrize("status", ["IN_QUEUE", "IN_PROGRESS", "RUNNING"])
def test_a_known_status_on_the_way_is_unfinished_and_proves_life(status: str) -> None:
    outcome = status_outcome(answer(200, msgspec.json.encode({"status": status})), "ab12-u1")

    assert isinstance(outcome, Unfinished)
    assert (outcome.status, outcome.known) == (status, True)


@pytest.mark.parametrize("status", ["PAUSED", "completed", "COMPLETED ", "0"])
def test_an_unknown_status_is_unfinished_and_proves_nothing(status: str) -> None:
    outcome = status_outcome(answer(200, msgspec.json.encode({"status": status})), "ab12-u1")

    assert isinstance(outcome, Unfinished)
    assert (outcome.status, outcome.known) == (status, False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        HTML,
        b'{"status":"COMPL',
        b'{"status":"IN_PROGRESS"',
        b'<pre>{"status":"COMPLETED"</pre>',
        b'{"error":"bare"}',
        b'{"status":""}',
        b'{"status":null}',
        b'{"status":5}',
        b"[]",
    ],
)
def test_a_2xx_that_is_no_record_is_no_news(body: bytes) -> None:
    assert status_outcome(answer(200, body), "ab12-u1") == NoNews(NO_RECORD, body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"COMPLETED","output":NaN}',
        b' {"status" : "FAILED", "error":"\xff"}',
        b'{"id":"ab12-u1","output":{"a":',
    ],
)
def test_a_torn_record_of_a_finished_job_is_told_from_a_page(body: bytes) -> None:
    assert status_outcome(answer(200, body), "ab12-u1") == NoNews(NO_RECORD, body, is_torn=True)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS", "PREPARING", ""])
@pytest.mark.parametrize("other", ["ab12-u2", "", "AB12-U1", "../x", "ab12-u1 ", "a" * 129, 5, ["ab12-u1"], {}, False])
def test_the_record_of_another_job_is_no_news_whatever_it_says(status: str, other: object) -> None:
    body = msgspec.json.encode({"id": other, "status": status, "output": 1})

    assert status_outcome(answer(200, body), "ab12-u1") == NoNews(OF_ANOTHER, body, is_of_another=True)


@pytest.mark.parametrize("body", [b'{"status":"COMPLETED"}', b'{"id":null,"status":"COMPLETED"}'])
def test_a_record_without_an_id_is_of_the_job_that_was_asked_for(body: bytes) -> None:
    assert isinstance(status_outcome(answer(200, body), "ab12-u1"), Terminal)


@pytest.mark.parametrize("status", [404, 410])
def test_a_404_says_that_the_job_is_gone(status: int) -> None:
    assert status_outcome(answer(status, HTML), "ab12-u1") == Gone()


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_refusal_of_the_key_is_pointless(status: int) -> None:
    assert status_outcome(answer(status), "ab12-u1") == Pointless(POINTLESS[status], status)


@pytest.mark.parametrize("status", [402, 405])
def test_what_concerns_new_jobs_only_does_not_end_the_asking(status: int) -> None:
    assert status_outcome(answer(status), "ab12-u1") == AskAgain(Trouble.SERVER, f"the service answered {status}")


def test_a_throttled_question_is_asked_again_as_the_service_wishes() -> None:
    assert status_outcome(answer(429, retry_after_s=2.0), "ab12-u1") == AskAgain(
        Trouble.THROTTLED, "too many requests (429)", 2.0
    )


@pytest.mark.parametrize("status", [302, 400, 408, 422, 500, 502, 503, 504, 524])
def test_any_other_answer_is_asked_for_again(status: int) -> None:
    outcome = status_outcome(answer(status, retry_after_s=4.0), "ab12-u1")

    assert outcome == AskAgain(Trouble.SERVER, f"the service answered {status}", 4.0)


@pytest.mark.parametrize("trouble", [NotSent("cut"), Unanswered("cut")])
def test_a_question_without_an_answer_is_asked_again(trouble: NotSent | Unanswered) -> None:
    assert status_outcome(trouble, "ab12-u1") == AskAgain(Trouble.TRANSPORT, "cut")


@given(results)
@example(answer(200, math.inf.hex().encode()))
def test_every_result_of_a_question_means_something(result: Answer | NotSent | Unanswered) -> None:
    assert isinstance(status_outcome(result, "ab12-u1"), StatusOutcome)


def test_only_what_took_no_effect_for_certain_had_a_trouble() -> None:
    deferred = Deferred(Trouble.THROTTLED, "429")
    assert trouble_of(deferred) is Trouble.THROTTLED
    assert trouble_of(NoNews("it cannot be read", b"<html>")) is None
