"""What an answer, or the lack of one, means: one test for each row of the tables."""

import math

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.service.responses import (
    HINT_CHARS_MAX,
    NO_RECORD,
    OF_ANOTHER,
    POINTLESS,
    Accepted,
    Answer,
    AskAgain,
    Deferred,
    Gone,
    NoNews,
    NotRetried,
    Pointless,
    Rejected,
    RunOutcome,
    StatusOutcome,
    Terminal,
    Trouble,
    Uncertain,
    Unfinished,
    of_retry,
    of_run,
    of_status,
    read_record,
    trouble_of,
)
from orchestrator.errors import NotSent, Unanswered
from tests.texts import texts


def answer(status: int, body: bytes = b"", *, retry_after_s: float | None = None) -> Answer:
    return Answer(status=status, body=body, sent_at=1, answered_at=2, retry_after_s=retry_after_s)


HTML = b"<html><head><title>502 Bad Gateway</title></head></html>"
DEEP = b"[" * 100_000 + b"]" * 100_000

statuses = st.integers(100, 999)
bodies = st.binary() | st.sampled_from([b"{}", b'{"id":"a-u1"}', b'{"id":"a-u1","status":"COMPLETED"}', HTML, DEEP])
results = st.builds(answer, statuses, bodies) | st.builds(NotSent, texts()) | st.builds(Unanswered, texts())


# --- /run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 299])
def test_a_submission_with_a_usable_id_is_accepted(status: int) -> None:
    assert of_run(answer(status, b'{"id":"ab12-u1","status":"IN_QUEUE","new":[1]}')) == Accepted("ab12-u1")


@pytest.mark.parametrize("remote_id", ["a", "_", "-", "A9_-" * 32])
def test_an_id_of_one_to_128_letters_digits_underscores_and_dashes_is_usable(remote_id: str) -> None:
    assert of_run(answer(200, msgspec.json.encode({"id": remote_id}))) == Accepted(remote_id)


@pytest.mark.parametrize(
    "remote_id", ["", "a/b", "..", "a.b", "a b", "a\n", "a?b", "a%2f", "\N{LATIN SMALL LETTER E WITH ACUTE}", "a" * 129]
)
def test_an_id_that_must_not_enter_a_path_leaves_a_submission_uncertain(remote_id: str) -> None:
    outcome = of_run(answer(200, msgspec.json.encode({"id": remote_id})))

    assert outcome == Uncertain("the service answered with an unusable id")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="no id"),
        pytest.param(b'{"id":null}', id="null"),
        pytest.param(b'{"id":17}', id="a number"),
        pytest.param(b'["ab12-u1"]', id="a list"),
        pytest.param(b'"ab12-u1"', id="a string"),
        pytest.param(b'{"id":"ab12-u', id="cut"),
        pytest.param(b'{"id":"ab12-u1"', id="cut after the id"),
        pytest.param(b'{"id":"ab12-u1"} {}', id="two documents"),
        pytest.param(b'{"id":"ab12-u1","x":NaN}', id="NaN"),
        pytest.param(b'{"id":"\\ud800"}', id="a lone surrogate"),
        pytest.param(b'{"id":"ab12-u1","x":' + DEEP + b"}", id="nested absurdly"),
        pytest.param(b'{"error":"no workers"}', id="an error"),
        pytest.param(HTML, id="HTML"),
        pytest.param(b"\xff\xfe", id="no text"),
    ],
)
def test_a_submission_answered_without_a_usable_id_is_uncertain(body: bytes) -> None:
    assert of_run(answer(200, body)) == Uncertain("the service answered without a usable id")


def test_a_throttled_submission_is_deferred_as_long_as_the_service_wishes() -> None:
    assert of_run(answer(429, retry_after_s=7.5)) == Deferred(Trouble.THROTTLED, "too many requests (429)", 7.5)


@pytest.mark.parametrize("status", [408, 425, 503])
def test_a_submission_refused_without_effect_is_deferred(status: int) -> None:
    outcome = of_run(answer(status, HTML, retry_after_s=3.0))

    assert outcome == Deferred(Trouble.SERVER, f"the service answered {status}", 3.0)


def test_a_submission_that_was_not_sent_is_deferred() -> None:
    assert of_run(NotSent("no route")) == Deferred(Trouble.TRANSPORT, "no route")


@pytest.mark.parametrize("status", [400, 406, 409, 411, 413, 415, 418, 422, 431, 499])
def test_a_refused_job_is_rejected(status: int) -> None:
    assert of_run(answer(status)) == Rejected(f"the service refused the job ({status})")


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 407, 410])
def test_a_refusal_that_concerns_all_jobs_makes_going_on_pointless(status: int) -> None:
    outcome = of_run(answer(status, HTML))

    assert outcome == Pointless(POINTLESS[status])
    assert str(status) in POINTLESS[status]


def test_the_refusals_that_concern_all_jobs_are_these() -> None:
    assert set(POINTLESS) == {401, 402, 403, 404, 405, 407, 410}


@pytest.mark.parametrize("status", [500, 501, 502, 504, 505, 520, 521, 522, 524, 529, 599])
def test_a_submission_that_met_a_server_error_is_uncertain(status: int) -> None:
    assert of_run(answer(status)) == Uncertain(f"the service answered {status}")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirected_submission_is_uncertain(status: int) -> None:
    assert of_run(answer(status, b'{"id":"ab12-u1"}')) == Uncertain(f"the service answered {status}")


@pytest.mark.parametrize("status", [100, 199, 600, 999])
def test_a_submission_with_an_unheard_of_status_is_uncertain(status: int) -> None:
    assert of_run(answer(status)) == Uncertain(f"the service answered {status}")


def test_an_unanswered_submission_is_uncertain() -> None:
    assert of_run(Unanswered("the connection was cut")) == Uncertain("the connection was cut")


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b'{"error":"input too large"}', ": input too large"),
        (b'{"message":"input too large"}', ": input too large"),
        (b'{"title":"Unprocessable","detail":"input missing"}', ": input missing"),
        (b'{"error":{"code":5},"message":"second"}', ": second"),
        (b'{"error":null}', ""),
        (b'{"code":5}', ""),
        (b'"input too large"', ""),
        (b'{"error":"cut', ""),
        (HTML, ""),
        (DEEP, ""),
        (b'{"error":"' + b"x" * 1_000 + b'"}', ": " + "x" * (HINT_CHARS_MAX - 1) + "…"),
    ],
)
def test_a_refusal_says_what_the_body_says_where_it_says_it_plainly(body: bytes, hint: str) -> None:
    assert of_run(answer(400, body)) == Rejected(f"the service refused the job (400{hint})")
    assert of_run(answer(500, body)) == Uncertain(f"the service answered 500{hint}")


@given(results)
def test_every_result_of_a_submission_means_something(result: Answer | NotSent | Unanswered) -> None:
    outcome: RunOutcome = of_run(result)

    if isinstance(outcome, Accepted):
        assert isinstance(result, Answer)
        assert 200 <= result.status < 300


@given(st.builds(answer, st.integers(100, 199) | st.integers(300, 399) | st.integers(500, 999), bodies))
def test_nothing_outside_2xx_and_4xx_but_503_says_that_a_submission_had_no_effect(result: Answer) -> None:
    assert isinstance(of_run(result), Deferred if result.status == 503 else Uncertain)


# --- /retry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b'{"id":"ab12-u1","status":"IN_QUEUE"}', b"", HTML])
def test_a_retry_with_any_2xx_is_accepted(body: bytes) -> None:
    assert of_retry(answer(200, body), "ab12-u1") == Accepted("")


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_retry_that_is_refused_of_a_job_that_is_known_says_nothing_of_its_state(status: int) -> None:
    outcome = of_retry(answer(status, b'{"error":"it has not failed"}'), "ab12-u1")

    assert outcome == NotRetried(f"the service no longer retries this job ({status}: it has not failed)")


@pytest.mark.parametrize("status", [404, 405, 410])
def test_a_retry_that_the_service_no_longer_makes_is_rejected(status: int) -> None:
    outcome = of_retry(answer(status, b'{"error":"job not found"}'), "ab12-u1")

    assert outcome == Rejected(f"the service no longer retries this job ({status}: job not found)")


@pytest.mark.parametrize("status", [401, 402, 403, 407])
def test_a_retry_that_no_job_would_get_is_pointless(status: int) -> None:
    assert of_retry(answer(status), "ab12-u1") == Pointless(POINTLESS[status])


def test_a_retry_without_effect_is_deferred() -> None:
    assert of_retry(answer(429, retry_after_s=1.0), "ab12-u1") == Deferred(
        Trouble.THROTTLED, "too many requests (429)", 1.0
    )
    assert of_retry(answer(503), "ab12-u1") == Deferred(Trouble.SERVER, "the service answered 503")
    assert of_retry(NotSent("refused"), "ab12-u1") == Deferred(Trouble.TRANSPORT, "refused")


def test_a_retry_that_may_have_been_applied_is_uncertain() -> None:
    assert of_retry(answer(500), "ab12-u1") == Uncertain("the service answered 500")
    assert of_retry(answer(302), "ab12-u1") == Uncertain("the service answered 302")
    assert of_retry(Unanswered("time-out"), "ab12-u1") == Uncertain("time-out")


@given(results)
def test_every_result_of_a_retry_means_something(result: Answer | NotSent | Unanswered) -> None:
    assert isinstance(of_retry(result, "ab12-u1"), RunOutcome)


# --- /status ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"])
def test_a_terminal_status_is_finished(status: str) -> None:
    body = msgspec.json.encode({"id": "ab12-u1", "status": status})
    outcome = of_status(answer(200, body), "ab12-u1")

    assert isinstance(outcome, Terminal)
    assert outcome.record == read_record(body)


@pytest.mark.parametrize("status", ["IN_QUEUE", "IN_PROGRESS", "RUNNING"])
def test_a_known_status_on_the_way_is_unfinished_and_proves_life(status: str) -> None:
    outcome = of_status(answer(200, msgspec.json.encode({"status": status})), "ab12-u1")

    assert isinstance(outcome, Unfinished)
    assert (outcome.status, outcome.known) == (status, True)


@pytest.mark.parametrize("status", ["PAUSED", "completed", "COMPLETED ", "0"])
def test_an_unknown_status_is_unfinished_and_proves_nothing(status: str) -> None:
    outcome = of_status(answer(200, msgspec.json.encode({"status": status})), "ab12-u1")

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
    assert of_status(answer(200, body), "ab12-u1") == NoNews(NO_RECORD, body)


@pytest.mark.parametrize(
    "body",
    [
        b'{"status":"COMPLETED","output":NaN}',
        b' {"status" : "FAILED", "error":"\xff"}',
        b'{"id":"ab12-u1","output":{"a":',
    ],
)
def test_a_torn_record_of_a_finished_job_is_told_from_a_page(body: bytes) -> None:
    assert of_status(answer(200, body), "ab12-u1") == NoNews(NO_RECORD, body, is_torn=True)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS", "PREPARING", ""])
@pytest.mark.parametrize("other", ["ab12-u2", "", "AB12-U1", "../x", "ab12-u1 ", "a" * 129, 5, ["ab12-u1"], {}, False])
def test_the_record_of_another_job_is_no_news_whatever_it_says(status: str, other: object) -> None:
    body = msgspec.json.encode({"id": other, "status": status, "output": 1})

    assert of_status(answer(200, body), "ab12-u1") == NoNews(OF_ANOTHER, body, is_of_another=True)


@pytest.mark.parametrize("body", [b'{"status":"COMPLETED"}', b'{"id":null,"status":"COMPLETED"}'])
def test_a_record_without_an_id_is_of_the_job_that_was_asked_for(body: bytes) -> None:
    assert isinstance(of_status(answer(200, body), "ab12-u1"), Terminal)


@pytest.mark.parametrize("status", [404, 410])
def test_a_404_says_that_the_job_is_gone(status: int) -> None:
    assert of_status(answer(status, HTML), "ab12-u1") == Gone()


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_refusal_of_the_key_is_pointless(status: int) -> None:
    assert of_status(answer(status), "ab12-u1") == Pointless(POINTLESS[status])


@pytest.mark.parametrize("status", [402, 405])
def test_what_concerns_new_jobs_only_does_not_end_the_asking(status: int) -> None:
    assert of_status(answer(status), "ab12-u1") == AskAgain(Trouble.SERVER, f"the service answered {status}")


def test_a_throttled_question_is_asked_again_as_the_service_wishes() -> None:
    assert of_status(answer(429, retry_after_s=2.0), "ab12-u1") == AskAgain(
        Trouble.THROTTLED, "too many requests (429)", 2.0
    )


@pytest.mark.parametrize("status", [302, 400, 408, 422, 500, 502, 503, 504, 524])
def test_any_other_answer_is_asked_for_again(status: int) -> None:
    outcome = of_status(answer(status, retry_after_s=4.0), "ab12-u1")

    assert outcome == AskAgain(Trouble.SERVER, f"the service answered {status}", 4.0)


@pytest.mark.parametrize("trouble", [NotSent("cut"), Unanswered("cut")])
def test_a_question_without_an_answer_is_asked_again(trouble: NotSent | Unanswered) -> None:
    assert of_status(trouble, "ab12-u1") == AskAgain(Trouble.TRANSPORT, "cut")


@given(results)
@example(answer(200, math.inf.hex().encode()))
def test_every_result_of_a_question_means_something(result: Answer | NotSent | Unanswered) -> None:
    assert isinstance(of_status(result, "ab12-u1"), StatusOutcome)


def test_only_what_took_no_effect_for_certain_had_a_trouble() -> None:
    deferred = Deferred(Trouble.THROTTLED, "429")
    assert trouble_of(deferred) is Trouble.THROTTLED
    assert trouble_of(NoNews("it cannot be read", b"<html>")) is None
