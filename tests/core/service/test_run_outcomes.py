"""What the result of a `/run` or a `/retry` means: one test for each row of the tables."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.service.answers import HINT_CHARS_MAX, POINTLESS, Answer, Pointless, Trouble
from orchestrator.core.service.run_outcomes import (
    Accepted,
    Deferred,
    NotRetried,
    Rejected,
    RunOutcome,
    Uncertain,
    retry_outcome,
    run_outcome,
)
from orchestrator.errors import NotSent, Unanswered
from tests.core.service.given_answers import DEEP, HTML, answer, bodies, results

# --- /run ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 299])
def test_a_submission_with_a_usable_id_is_accepted(status: int) -> None:
    assert run_outcome(answer(status, b'{"id":"ab12-u1","status":"IN_QUEUE","new":[1]}')) == Accepted("ab12-u1")


@pytest.mark.parametrize("remote_id", ["a", "_", "-", "A9_-" * 32])
def test_an_id_of_one_to_128_letters_digits_underscores_and_dashes_is_usable(remote_id: str) -> None:
    assert run_outcome(answer(200, msgspec.json.encode({"id": remote_id}))) == Accepted(remote_id)


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


def test_a_throttled_submission_is_deferred_as_long_as_the_service_wishes() -> None:
    assert run_outcome(answer(429, retry_after_s=7.5)) == Deferred(Trouble.THROTTLED, "too many requests (429)", 7.5)


@pytest.mark.parametrize("status", [408, 425, 503])
def test_a_submission_refused_without_effect_is_deferred(status: int) -> None:
    outcome = run_outcome(answer(status, HTML, retry_after_s=3.0))

    assert outcome == Deferred(Trouble.SERVER, f"the service answered {status}", 3.0)


def test_a_submission_that_was_not_sent_is_deferred() -> None:
    assert run_outcome(NotSent("no route")) == Deferred(Trouble.TRANSPORT, "no route")


@pytest.mark.parametrize("status", [400, 406, 409, 411, 413, 415, 418, 422, 431, 499])
def test_a_refused_job_is_rejected(status: int) -> None:
    assert run_outcome(answer(status)) == Rejected(f"the service refused the job ({status})")


@pytest.mark.parametrize("status", [401, 402, 403, 404, 405, 407, 410])
def test_a_refusal_that_concerns_all_jobs_makes_going_on_pointless(status: int) -> None:
    outcome = run_outcome(answer(status, HTML))

    assert outcome == Pointless(POINTLESS[status], status)
    assert str(status) in POINTLESS[status]


def test_the_refusals_that_concern_all_jobs_are_these() -> None:
    assert set(POINTLESS) == {401, 402, 403, 404, 405, 407, 410}


@pytest.mark.parametrize("status", [500, 501, 502, 504, 505, 520, 521, 522, 524, 529, 599])
def test_a_submission_that_met_a_server_error_is_uncertain(status: int) -> None:
    assert run_outcome(answer(status)) == Uncertain(f"the service answered {status}")


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirected_submission_is_uncertain(status: int) -> None:
    assert run_outcome(answer(status, b'{"id":"ab12-u1"}')) == Uncertain(f"the service answered {status}")


@pytest.mark.parametrize("status", [100, 199, 600, 999])
def test_a_submission_with_an_unheard_of_status_is_uncertain(status: int) -> None:
    assert run_outcome(answer(status)) == Uncertain(f"the service answered {status}")


def test_an_unanswered_submission_is_uncertain() -> None:
    assert run_outcome(Unanswered("the connection was cut")) == Uncertain("the connection was cut")


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


@given(results)
def test_every_result_of_a_submission_means_something(result: Answer | NotSent | Unanswered) -> None:
    outcome: RunOutcome = run_outcome(result)

    if isinstance(outcome, Accepted):
        assert isinstance(result, Answer)
        assert 200 <= result.status < 300


@given(st.builds(answer, st.integers(100, 199) | st.integers(300, 399) | st.integers(500, 999), bodies))
def test_nothing_outside_2xx_and_4xx_but_503_says_that_a_submission_had_no_effect(result: Answer) -> None:
    assert isinstance(run_outcome(result), Deferred if result.status == 503 else Uncertain)


# --- /retry ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b'{"id":"ab12-u1","status":"IN_QUEUE"}', b"", HTML])
def test_a_retry_with_any_2xx_is_accepted(body: bytes) -> None:
    assert retry_outcome(answer(200, body), "ab12-u1") == Accepted("")


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_retry_that_is_refused_of_a_job_that_is_known_says_nothing_of_its_state(status: int) -> None:
    outcome = retry_outcome(answer(status, b'{"error":"it has not failed"}'), "ab12-u1")

    assert outcome == NotRetried(f"the service no longer retries this job ({status}: it has not failed)")


@pytest.mark.parametrize("status", [404, 405, 410])
def test_a_retry_that_the_service_no_longer_makes_is_rejected(status: int) -> None:
    outcome = retry_outcome(answer(status, b'{"error":"job not found"}'), "ab12-u1")

    assert outcome == Rejected(f"the service no longer retries this job ({status}: job not found)")


@pytest.mark.parametrize("status", [401, 402, 403, 407])
def test_a_retry_that_no_job_would_get_is_pointless(status: int) -> None:
    assert retry_outcome(answer(status), "ab12-u1") == Pointless(POINTLESS[status], status)


def test_a_retry_without_effect_is_deferred() -> None:
    assert retry_outcome(answer(429, retry_after_s=1.0), "ab12-u1") == Deferred(
        Trouble.THROTTLED, "too many requests (429)", 1.0
    )
    assert retry_outcome(answer(503), "ab12-u1") == Deferred(Trouble.SERVER, "the service answered 503")
    assert retry_outcome(NotSent("refused"), "ab12-u1") == Deferred(Trouble.TRANSPORT, "refused")


def test_a_retry_that_may_have_been_applied_is_uncertain() -> None:
    assert retry_outcome(answer(500), "ab12-u1") == Uncertain("the service answered 500")
    assert retry_outcome(answer(302), "ab12-u1") == Uncertain("the service answered 302")
    assert retry_outcome(Unanswered("time-out"), "ab12-u1") == Uncertain("time-out")


@given(results)
def test_every_result_of_a_retry_means_something(result: Answer | NotSent | Unanswered) -> None:
    assert isinstance(retry_outcome(result, "ab12-u1"), RunOutcome)
