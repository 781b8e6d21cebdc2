"""Reasons are codes with details; a sentence is made of them for people."""

import pytest

from orchestrator.core.jobs.reasons import Detail, Reason, ReasonCode, doubt_of_retry, reason_text


@pytest.mark.parametrize("code", ReasonCode)
def test_each_code_has_its_sentence(code: ReasonCode) -> None:
    text = reason_text(code, Detail(because="why", run="first", custom_id="row-1"))
    assert text
    assert "{" not in text


@pytest.mark.parametrize(
    ("reason", "detail", "text"),
    [
        ("status", None, "status"),
        ("status", Detail(is_free=True), "status, which costs no attempt"),
        ("status", Detail(is_free=True, settings="endpoint big"), "status, which costs no attempt; with endpoint big"),
        (ReasonCode.REQUESTED, Detail(settings="TTL 10 s"), "asked for, with TTL 10 s"),
        (ReasonCode.REQUESTED, Detail(error="no, with that"), "asked for; it had ended with: no, with that"),
        (ReasonCode.REUSED, Detail(run="first", custom_id="row-1"), "reused: the result of row-1 of first"),
        (ReasonCode.NOT_REUSED, Detail(because="it is {old}"), "run; not reused: it is {old}"),
    ],
)
def test_what_belongs_to_a_reason_is_in_its_sentence(reason: Reason, detail: Detail | None, text: str) -> None:
    assert reason_text(reason, detail) == text


@pytest.mark.parametrize("reason", ["retry_refused", ReasonCode.RETRY])
def test_no_other_reason_leaves_a_retry_in_doubt(reason: Reason) -> None:
    assert doubt_of_retry(reason) is None
