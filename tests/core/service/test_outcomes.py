"""What the result of a request means for its job, row by row, and how a finished execution ended."""

import math

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import HINT_CHARS_MAX, POINTLESS, Answer, Pointless
from orchestrator.core.service.job_record import Record, read_record
from orchestrator.core.service.outcomes import (
    NO_RECORD,
    OF_ANOTHER,
    Accepted,
    AskAgain,
    Deferred,
    Gone,
    NoNews,
    NotRetried,
    Rejected,
    RunOutcome,
    StatusOutcome,
    Terminal,
    Uncertain,
    Unfinished,
    Verdict,
    cancel_outcome,
    retry_outcome,
    run_outcome,
    status_outcome,
    trouble_of,
    verdict_of,
)
from orchestrator.errors import NotSent, Unanswered
from tests.texts import texts

HTML = b"<html><head><title>502 Bad Gateway</title></head></html>"
DEEP = b"[" * 100_000 + b"]" * 100_000
ID = "ab12-u1"


def answer(status: int, body: bytes = b"", *, retry_after_s: float | None = None) -> Answer:
    return Answer(status=status, body=body, sent_at=1, answered_at=2, retry_after_s=retry_after_s)


bodies = st.binary() | st.sampled_from([b"{}", b'{"id":"a-u1"}', b'{"id":"a-u1","status":"COMPLETED"}', HTML, DEEP])
results = (
    st.builds(answer, st.integers(100, 999), bodies)
    | st.builds(NotSent, texts())
    | st.builds(Unanswered, texts())
)  # fmt: skip

THROTTLED = "too many requests (429)"
CONCERN_ALL = (401, 402, 403, 404, 405, 407, 410)


def answered(status: int) -> str:
    return f"the service answered {status}"


# --- /run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 299])
@pytest.mark.parametrize("remote_id", ["a", "_", "-", "A9_-" * 32])
def test_a_submission_with_a_usable_id_is_accepted(status: int, remote_id: str) -> None:
    body = msgspec.json.encode({"id": remote_id, "status": "IN_QUEUE", "new": [1]})
    assert run_outcome(answer(status, body)) == Accepted(remote_id)


@pytest.mark.parametrize(
    "remote_id", ["", "a/b", "..", "a.b", "a b", "a\n", "a?b", "a%2f", "\N{LATIN SMALL LETTER E WITH ACUTE}", "a" * 129]
)
def test_an_id_that_must_not_enter_a_path_leaves_a_submission_uncertain(remote_id: str) -> None:
    outcome = run_outcome(answer(200, msgspec.json.encode({"id": remote_id})))

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
    assert run_outcome(answer(200, body)) == Uncertain("the service answered without a usable id")


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        (answer(429, retry_after_s=7.5), Deferred(FailureClass.THROTTLED, THROTTLED, 7.5)),
        *((answer(n, HTML, retry_after_s=3), Deferred(FailureClass.SERVER, answered(n), 3)) for n in (408, 425, 503)),
        (NotSent("no route"), Deferred(FailureClass.TRANSPORT, "no route")),
        (Unanswered("the connection was cut"), Uncertain("the connection was cut")),
        *(
            (answer(n), Rejected(f"the service refused the job ({n})"))
            for n in (400, 406, 409, 411, 413, 415, 418, 422, 431, 499)
        ),
        *((answer(n, HTML), Pointless(POINTLESS[n], n)) for n in CONCERN_ALL),
        *((answer(n), Uncertain(answered(n))) for n in (500, 501, 502, 504, 505, 520, 521, 522, 524, 529, 599)),
        *((answer(n, b'{"id":"a"}'), Uncertain(answered(n))) for n in (300, 301, 302, 303, 304, 307, 308)),
        *((answer(n), Uncertain(answered(n))) for n in (100, 199, 600, 999)),
    ],
    ids=str,
)
def test_every_other_result_of_a_submission(result: Answer | NotSent | Unanswered, outcome: RunOutcome) -> None:
    assert run_outcome(result) == outcome


def test_the_refusals_that_concern_all_jobs_are_these_and_name_themselves() -> None:
    assert tuple(POINTLESS) == CONCERN_ALL
    assert all(str(status) in reason for status, reason in POINTLESS.items())


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
    assert run_outcome(answer(400, body)) == Rejected(f"the service refused the job (400{hint})")
    assert run_outcome(answer(500, body)) == Uncertain(f"the service answered 500{hint}")


@given(st.builds(answer, st.integers(100, 199) | st.integers(300, 399) | st.integers(500, 999), bodies))
def test_nothing_outside_2xx_and_4xx_but_503_says_that_a_submission_had_no_effect(result: Answer) -> None:
    assert isinstance(run_outcome(result), Deferred if result.status == 503 else Uncertain)


# --- /retry and /cancel ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        *((answer(200, body), Accepted("")) for body in (b'{"id":"ab12-u1","status":"IN_QUEUE"}', b"", HTML)),
        *(
            (answer(n, b'{"error":"no"}'), NotRetried(f"the service no longer retries this job ({n}: no)"))
            for n in (400, 409, 413, 422)
        ),
        *(
            (answer(n, b'{"error":"no"}'), Rejected(f"the service no longer retries this job ({n}: no)"))
            for n in (404, 405, 410)
        ),
        *((answer(n), Pointless(POINTLESS[n], n)) for n in (401, 402, 403, 407)),
        (answer(429, retry_after_s=1), Deferred(FailureClass.THROTTLED, THROTTLED, 1)),
        (answer(503), Deferred(FailureClass.SERVER, answered(503))),
        (NotSent("refused"), Deferred(FailureClass.TRANSPORT, "refused")),
        *((answer(n), Uncertain(answered(n))) for n in (302, 500)),
        (Unanswered("time-out"), Uncertain("time-out")),
    ],
    ids=str,
)
def test_every_result_of_a_retry(result: Answer | NotSent | Unanswered, outcome: RunOutcome) -> None:
    assert retry_outcome(result, ID) == outcome


@pytest.mark.parametrize("status", [200, 202, 400, 404, 405, 409, 410, 422])
def test_every_answer_that_speaks_of_the_job_settles_its_cancelling(status: int) -> None:
    assert cancel_outcome(answer(status), ID) is None


@pytest.mark.parametrize(
    ("result", "trouble"),
    [
        *((answer(n, retry_after_s=7), FailureClass.SERVER) for n in (301, 401, 403, 408, 500, 503)),
        (answer(429, retry_after_s=7), FailureClass.THROTTLED),
        (answer(200, b'{"id":"ab12-u2","status":"CANCELLED"}'), FailureClass.SERVER),
        (NotSent("refused"), FailureClass.TRANSPORT),
        (Unanswered("cut"), FailureClass.TRANSPORT),
    ],
    ids=str,
)
def test_everything_else_leaves_it_owed(result: Answer | NotSent | Unanswered, trouble: FailureClass) -> None:
    again = cancel_outcome(result, ID)
    assert again is not None
    assert again.trouble is trouble
    assert again.retry_after_s == (result.retry_after_s if isinstance(result, Answer) else None)


# --- /status ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"])
@pytest.mark.parametrize("names", [{"id": ID}, {"id": None}, {}])
def test_a_terminal_status_is_finished(status: str, names: dict[str, object]) -> None:
    body = msgspec.json.encode({**names, "status": status})
    record = read_record(body)
    assert record is not None
    assert status_outcome(answer(200, body), ID) == Terminal(record)


@pytest.mark.parametrize(
    ("status", "known"),
    [
        *((each, True) for each in ("IN_QUEUE", "IN_PROGRESS", "RUNNING")),
        *((each, False) for each in ("PAUSED", "completed", "COMPLETED ", "0")),
    ],
)
def test_any_other_status_is_unfinished_and_proves_life_if_it_is_known(status: str, known: bool) -> None:
    outcome = status_outcome(answer(200, msgspec.json.encode({"status": status})), ID)

    assert isinstance(outcome, Unfinished)
    assert (outcome.status, outcome.known) == (status, known)


@pytest.mark.parametrize(
    ("body", "is_torn"),
    [
        (b"", False),
        (HTML, False),
        (b'{"status":"COMPL', False),
        (b'{"status":"IN_PROGRESS"', False),
        (b'<pre>{"status":"COMPLETED"</pre>', False),
        (b'{"error":"bare"}', False),
        (b'{"status":""}', False),
        (b'{"status":null}', False),
        (b'{"status":5}', False),
        (b"[]", False),
        (b'{"status":"COMPLETED","output":NaN}', True),
        (b' {"status" : "FAILED", "error":"\xff"}', True),
        (b'{"id":"ab12-u1","output":{"a":', True),
    ],
)
def test_a_2xx_that_is_no_record_is_no_news_and_a_torn_one_is_told_from_a_page(body: bytes, is_torn: bool) -> None:
    assert status_outcome(answer(200, body), ID) == NoNews(NO_RECORD, body, is_torn)


@pytest.mark.parametrize("status", ["COMPLETED", "FAILED", "IN_PROGRESS", "PREPARING", ""])
@pytest.mark.parametrize("other", ["ab12-u2", "", "AB12-U1", "../x", "ab12-u1 ", "a" * 129, 5, [ID], {}, False])
def test_the_record_of_another_job_is_no_news_whatever_it_says(status: str, other: object) -> None:
    body = msgspec.json.encode({"id": other, "status": status, "output": 1})

    assert status_outcome(answer(200, body), ID) == NoNews(OF_ANOTHER, body, is_of_another=True)
    assert retry_outcome(answer(200, body), ID) == Uncertain(OF_ANOTHER)


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        *((answer(n, HTML), Gone()) for n in (404, 410)),
        *((answer(n), Pointless(POINTLESS[n], n)) for n in (401, 403, 407)),
        (answer(429, retry_after_s=2), AskAgain(FailureClass.THROTTLED, THROTTLED, 2)),
        *(
            (answer(n, retry_after_s=4), AskAgain(FailureClass.SERVER, answered(n), 4))
            for n in (302, 400, 402, 405, 408, 422, 500, 502, 503, 504, 524)
        ),
        *((kind("cut"), AskAgain(FailureClass.TRANSPORT, "cut")) for kind in (NotSent, Unanswered)),
    ],
    ids=str,
)
def test_every_other_result_of_a_question(result: Answer | NotSent | Unanswered, outcome: StatusOutcome) -> None:
    assert status_outcome(result, ID) == outcome


@given(results)
@example(answer(200, math.inf.hex().encode()))
def test_every_result_means_something(result: Answer | NotSent | Unanswered) -> None:
    submitted = run_outcome(result)
    assert isinstance(submitted, RunOutcome)
    assert not isinstance(submitted, Accepted) or (isinstance(result, Answer) and 200 <= result.status < 300)
    assert isinstance(retry_outcome(result, ID), RunOutcome)
    assert isinstance(status_outcome(result, ID), StatusOutcome)
    assert isinstance(cancel_outcome(result, ID), AskAgain | None)


def test_only_what_took_no_effect_for_certain_had_a_trouble() -> None:
    assert trouble_of(Deferred(FailureClass.THROTTLED, "429")) is FailureClass.THROTTLED
    assert trouble_of(NoNews("it cannot be read", b"<html>")) is None


# --- how a finished one ended ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "output", "required", "rejected", "verdict"),
    [
        *(("COMPLETED", output, True, None, Verdict(None)) for output in (b"{}", b'{"n":1}')),
        *(("COMPLETED", output, False, None, Verdict(None)) for output in (b"null", b"{}", b'{"n":1}', None)),
        ("COMPLETED", b"null", True, None, Verdict(FailureClass.INVALID_OUTPUT, "the output is null")),
        (
            "COMPLETED",
            None,
            True,
            None,
            Verdict(FailureClass.INVALID_OUTPUT, "the service said COMPLETED and gave no output"),
        ),
        ("COMPLETED", b"7", True, "too small", Verdict(FailureClass.INVALID_OUTPUT, "too small")),
        ("FAILED", None, False, "too small", Verdict(FailureClass.FAILED, "because")),
        ("TIMED_OUT", None, True, None, Verdict(FailureClass.TIMED_OUT, "because")),
        ("CANCELLED", None, True, None, Verdict(FailureClass.CANCELLED, "because")),
    ],
)
def test_how_a_finished_one_ended(
    status: str, output: bytes | None, required: bool, rejected: str | None, verdict: Verdict
) -> None:
    error = None if status == "COMPLETED" else "because"
    record = Record(remote_id=ID, status=status, output=output, error=error)
    assert verdict_of(record, output_required=required, rejected=rejected) == verdict


@pytest.mark.parametrize("error", [None, ""])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        ("FAILED", "the service said FAILED and gave no reason"),
        ("TIMED_OUT", "the service said TIMED_OUT and gave no reason"),
        ("CANCELLED", "cancelled at the service"),
    ],
)
def test_an_end_without_a_reason_is_given_one(status: str, message: str, error: str | None) -> None:
    assert verdict_of(Record(remote_id=ID, status=status, error=error), output_required=True).message == message
