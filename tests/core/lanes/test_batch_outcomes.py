"""What the answers of the service's own Batch mean."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.lanes.batch_outcomes import (
    HAS_NO_BATCHES,
    BatchRefused,
    batch_change_outcome,
    batch_list_outcome,
    batch_outcome,
    batch_page_outcome,
)
from orchestrator.core.service.batches import (
    ANOTHER_PAGE,
    NO_BATCH,
    NO_LIST,
    NO_PAGE,
    OF_ANOTHER_BATCH,
    BatchChanged,
    BatchList,
    BatchPage,
    ServiceBatch,
    append_body,
)
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.service.http_answers import Answer, Pointless
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.outcomes import AskAgain, Deferred, Gone, Uncertain
from orchestrator.errors import NotSent, Unanswered

ID = "batch_01j9abc123"
DRAFT = ServiceBatch(id=ID, status="DRAFT")


def answer(body: str = "", status: int = 200, retry_after_s: float | None = None) -> Answer:
    return Answer(status=status, body=body.encode(), sent_at=1, answered_at=2, retry_after_s=retry_after_s)


DOCUMENTED = answer(
    '{"id":"batch_01j9abc123","endpointId":"abc123xyz","status":"FINALIZED","requestTotal":1000,'
    '"requestInProgress":8,"requestCompleted":244,"requestFailed":6,"createdAt":1783584000000}'
)

PAGE = answer(
    '{"requests":[{"id":"req_abc001","status":"COMPLETED","output":{"embedding":[0.12, 1e400]},'
    '"startedAt":"2026-07-09T09:15:00Z","completedAt":"2026-07-09T09:15:02Z"},'
    '{"id":"req_abc002","status":"FAILED","error":"timeout exceeded","startedAt":"2026-07-09T09:15:01",'
    '"completedAt":"2026-07-09T09:15:10Z"},{"id":"req_abc003","status":"IN_QUEUE"},"nobody can read this"],'
    '"total":1000,"offset":50,"limit":50,"hasMore":true}'
)


# --- a batch


def test_a_batch_is_read_as_it_is_documented() -> None:
    assert batch_outcome(DOCUMENTED, ID) == ServiceBatch(
        id=ID, status="FINALIZED", total=1000, in_progress=8, completed=244, failed=6, created_ms=1783584000000
    )


@pytest.mark.parametrize(
    ("status", "counts", "is_over"),
    [
        ("DRAFT", (0, 0, 0), False),
        ("FINALIZED", (10, 4, 5), False),
        ("FINALIZED", (10, 4, 6), True),
        ("FINALIZED", (None, 4, 6), False),
        ("FINALIZED", (0, 0, 0), False),
        ("FINALIZED", (2, 2, None), True),
        ("CANCELLED", (10, 0, 0), True),
        ("FAILED", (10, 0, 0), True),
        ("RUNNING", (10, 10, 0), False),
    ],
)
def test_a_batch_is_over_by_its_counts_or_once_it_failed_or_was_cancelled(
    status: str, counts: tuple[int | None, int | None, int | None], is_over: bool
) -> None:
    total, completed, failed = counts
    batch = ServiceBatch(id=ID, status=status, total=total, completed=completed, failed=failed)
    assert (batch.is_over, batch.is_draft) == (is_over, status == "DRAFT")
    assert batch.ended == (completed or 0) + (failed or 0)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<html>", NO_BATCH),
        ("{}", NO_BATCH),
        ('{"error":"something went wrong"}', NO_BATCH),
        (f'{{"id":"{ID}"}}', NO_BATCH),
        ('{"id":"../x","status":"DRAFT"}', NO_BATCH),
        ("[" * 100_000, NO_BATCH),
        ('{"id":"batch_2","status":"DRAFT"}', OF_ANOTHER_BATCH),
    ],
)
def test_what_is_no_answer_about_the_batch_is_asked_for_again(body: str, problem: str) -> None:
    assert batch_outcome(answer(body), ID) == AskAgain(FailureClass.SERVER, problem)


def test_a_count_that_is_none_costs_nothing_else() -> None:
    told = answer(f'{{"id":"{ID}","status":"FINALIZED","requestTotal":-1,"requestCompleted":"many","requestFailed":2}}')
    assert batch_outcome(told, ID) == ServiceBatch(id=ID, status="FINALIZED", failed=2)


# --- changes


def test_a_created_batch_has_the_id_that_the_answer_names() -> None:
    assert batch_change_outcome(answer(f'{{"id":"{ID}","status":"DRAFT"}}')) == BatchChanged(batch=DRAFT)


@pytest.mark.parametrize("members", ['"requests":[{"id":"a"},{"id":"b"}]', '"requestIds":["a","b"]', '"ids":["a","b"]'])
def test_the_ids_of_appended_requests_are_found_wherever_the_answer_has_them(members: str) -> None:
    told = answer(f'{{"id":"{ID}","status":"DRAFT",{members}}}')
    assert batch_change_outcome(told, ID, requests=2) == BatchChanged(batch=DRAFT, request_ids=("a", "b"))
    bare = answer(f"{{{members}}}")
    assert batch_change_outcome(bare, ID, requests=2) == BatchChanged(request_ids=("a", "b"))


@pytest.mark.parametrize("body", ['["a","b"]', '[{"id":"a"},{"id":"b"}]'])
def test_the_answer_to_an_append_may_be_the_ids_alone(body: str) -> None:
    assert batch_change_outcome(answer(body), ID, requests=2) == BatchChanged(request_ids=("a", "b"))
    assert batch_change_outcome(answer(body), ID, requests=3) == Uncertain(NO_BATCH)


@pytest.mark.parametrize(
    "named", ["[]", '["a"]', '["a","a"]', '["a","b","c"]', '["a","../b"]', '["a",7]', '[{"id":"a"},{}]', '"a"']
)
def test_ids_that_are_not_one_for_each_request_are_none(named: str) -> None:
    told = answer(f'{{"id":"{ID}","status":"DRAFT","requests":{named}}}')
    assert batch_change_outcome(told, ID, requests=2) == BatchChanged(batch=DRAFT)
    assert batch_change_outcome(told, ID) == BatchChanged(batch=DRAFT), "nobody sent any"


def test_a_change_may_be_answered_with_nothing_where_the_status_says_so() -> None:
    assert batch_change_outcome(answer(status=204), ID) == BatchChanged()
    assert batch_change_outcome(answer(status=204)) == Uncertain(NO_BATCH), "a batch without an id"


@pytest.mark.parametrize("body", ["", "<html>", "{}", '{"error":"something went wrong"}', "[]", f'{{"id":"{ID}"'])
def test_a_success_that_cannot_be_read_is_uncertain(body: str) -> None:
    assert batch_change_outcome(answer(body)) == Uncertain(NO_BATCH)
    assert batch_change_outcome(answer(body), ID) == Uncertain(NO_BATCH)


def test_a_success_about_another_batch_is_uncertain() -> None:
    told = answer('{"id":"batch_2","status":"FINALIZED"}')
    assert batch_change_outcome(told, ID) == Uncertain(OF_ANOTHER_BATCH)


def test_what_never_left_and_what_was_not_answered() -> None:
    assert batch_change_outcome(NotSent("refused")) == Deferred(FailureClass.TRANSPORT, "refused")
    assert batch_change_outcome(Unanswered("cut"), ID) == Uncertain("cut")


@pytest.mark.parametrize("status", [408, 425, 503])
def test_a_service_that_takes_nothing_now_is_asked_later(status: int) -> None:
    outcome = batch_change_outcome(answer(status=status, retry_after_s=7), ID)
    assert outcome == Deferred(FailureClass.SERVER, f"the service answered {status}", 7)


def test_too_many_requests_are_deferred() -> None:
    outcome = batch_change_outcome(answer(status=429, retry_after_s=7))
    assert outcome == Deferred(FailureClass.THROTTLED, "too many requests (429)", 7)


@pytest.mark.parametrize("status", [404, 410])
def test_a_batch_that_is_unknown_is_gone_and_to_create_one_there_is_pointless(status: int) -> None:
    assert batch_change_outcome(answer(status=status), ID) == Gone()
    assert batch_change_outcome(answer(status=status)) == Pointless(f"{HAS_NO_BATCHES} ({status})", status)


@pytest.mark.parametrize("status", [401, 402, 403, 405, 501])
def test_what_concerns_every_request_is_pointless(status: int) -> None:
    outcome = batch_change_outcome(answer(status=status), ID)
    assert isinstance(outcome, Pointless)
    assert outcome.status == status


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refusal_has_its_status_and_what_the_service_says(status: int) -> None:
    refused = answer('{"error":"too many active batches"}', status)
    outcome = batch_change_outcome(refused)
    assert outcome == BatchRefused(status, f"the service refused it ({status}: too many active batches)")


@pytest.mark.parametrize("status", [302, 500, 502, 504])
def test_a_failure_leaves_open_whether_it_was_done(status: int) -> None:
    assert batch_change_outcome(answer(status=status), ID) == Uncertain(f"the service answered {status}")


# --- pages


def test_a_page_has_records_in_the_services_order_and_a_place_for_what_cannot_be_read() -> None:
    page = batch_page_outcome(PAGE, 50)
    assert isinstance(page, BatchPage)
    assert (page.total, page.has_more) == (1000, True)
    output = b'{"embedding":[0.12,1e400]}'
    assert [row.record for row in page.rows] == [
        Record(remote_id="req_abc001", status="COMPLETED", output=output, execution_ms=2000),
        Record(remote_id="req_abc002", status="FAILED", error="timeout exceeded", execution_ms=9000),
        Record(remote_id="req_abc003", status="IN_QUEUE"),
        Record(remote_id=None, status=""),
    ]
    assert [row.finished_at for row in page.rows] == [1783588502000000, 1783588510000000, None, None]


def test_another_page_than_was_asked_for_is_none() -> None:
    assert batch_page_outcome(PAGE, 0) == AskAgain(FailureClass.SERVER, ANOTHER_PAGE)


@pytest.mark.parametrize("body", ["<html>", "{}", '{"requests":{}}', '{"error":"no"}', "[]"])
def test_what_is_no_page_is_asked_for_again(body: str) -> None:
    assert batch_page_outcome(answer(body), 0) == AskAgain(FailureClass.SERVER, NO_PAGE)


@pytest.mark.parametrize(
    ("members", "requests", "has_more"),
    [
        ('"hasMore":false', 1, False),
        ('"hasMore":true', 0, True),
        ('"total":8', 1, True),
        ('"total":6', 1, False),
        ('"limit":50', 1, True),
        ('"limit":50', 0, False),
        ('"hasMore":"perhaps","total":6', 1, False),
    ],
)
def test_where_the_service_does_not_say_whether_there_is_more_it_is_counted(
    members: str, requests: int, has_more: bool
) -> None:
    items = ",".join(['{"id":"a","status":"IN_QUEUE"}'] * requests)
    page = batch_page_outcome(answer(f'{{"requests":[{items}],{members}}}'), 5)
    assert isinstance(page, BatchPage)
    assert page.has_more is has_more


# --- lists


@pytest.mark.parametrize("name", ["batches", "items", "data"])
def test_a_list_is_found_wherever_the_answer_has_it(name: str) -> None:
    told = answer(f'{{"{name}":[{{"id":"{ID}","status":"DRAFT"}}],"total":3}}')
    assert batch_list_outcome(told, 1) == BatchList(batches=(DRAFT,), has_more=True)
    assert batch_list_outcome(told, 2) == BatchList(batches=(DRAFT,), has_more=False)


def test_a_list_may_be_bare() -> None:
    assert batch_list_outcome(answer(f'[{{"id":"{ID}","status":"DRAFT"}}]')) == BatchList(
        batches=(DRAFT,), has_more=False
    )
    assert batch_list_outcome(answer("[]")) == BatchList(batches=(), has_more=False)
    assert batch_list_outcome(answer('{"batches":[]}')) == BatchList(batches=(), has_more=False)


@pytest.mark.parametrize("body", ["<html>", "{}", '{"batches":7}', f'[{{"id":"{ID}","status":"DRAFT"}},{{}}]'])
def test_a_list_of_which_a_part_cannot_be_read_is_none(body: str) -> None:
    assert batch_list_outcome(answer(body)) == AskAgain(FailureClass.SERVER, NO_LIST)


# --- questions that are refused


def test_a_question_that_is_not_answered_is_asked_again() -> None:
    assert batch_outcome(Unanswered("cut"), ID) == AskAgain(FailureClass.TRANSPORT, "cut")
    assert batch_page_outcome(answer(status=429, retry_after_s=7), 0) == AskAgain(
        FailureClass.THROTTLED, "too many requests (429)", 7
    )
    assert batch_list_outcome(answer(status=500)) == AskAgain(FailureClass.SERVER, "the service answered 500")


@pytest.mark.parametrize("status", [401, 402, 403, 407])
def test_a_key_that_may_not_ask_is_pointless(status: int) -> None:
    for outcome in (batch_outcome(answer(status=status), ID), batch_list_outcome(answer(status=status))):
        assert isinstance(outcome, Pointless)
        assert outcome.status == status


def test_a_batch_that_is_unknown_is_gone_and_an_endpoint_without_batches_is_pointless() -> None:
    assert batch_outcome(answer(status=404), ID) == Gone()
    assert batch_page_outcome(answer(status=410), 0) == Gone()
    assert batch_list_outcome(answer(status=404)) == Pointless(HAS_NO_BATCHES, 404)


# --- bodies


def test_the_body_of_an_append_has_each_request_as_it_is() -> None:
    assert append_body([b'{"input":{"n":1.0}}', b'{"input":{"n":2}}']) == (
        b'{"requests":[{"input":{"n":1.0}},{"input":{"n":2}}]}'
    )
    assert append_body([]) == b'{"requests":[]}'


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.text(max_size=20), st.lists, max_leaves=10).map(msgspec.json.encode)
)
def test_no_body_breaks_the_reading(body: bytes) -> None:
    told = Answer(status=200, body=body, sent_at=0, answered_at=0)
    assert isinstance(batch_change_outcome(told, ID, requests=1), Uncertain | BatchChanged)
    batch_outcome(told, ID)
    batch_page_outcome(told, 0)
    batch_list_outcome(told)


@pytest.mark.parametrize("status", [400, 405, 409, 422])
def test_pages_may_be_refused_of_a_batch_that_is_known(status: int) -> None:
    assert batch_page_outcome(answer('{"error":"a draft"}', status=status), 0) == BatchRefused(
        status, f"the service refused it ({status}: a draft)"
    )


def test_of_one_that_has_ended_it_is_told_how() -> None:
    cancelled = ServiceBatch(id="batch_1", status="CANCELLED", total=9, completed=2)
    failed = ServiceBatch(id="batch_1", status="FAILED", total=9)
    assert [(each.is_cancelled, each.is_failed, each.is_over) for each in (cancelled, failed)] == [
        (True, False, True),
        (False, True, True),
    ]
