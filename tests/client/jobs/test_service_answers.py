"""Answers as values: what is known is typed, what is not is kept, and nothing crashes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.client.jobs import service_answers
from orchestrator.client.jobs.service_answers import Chunk, JobRecord, Purged
from orchestrator.core.service.job_record import read_as
from tests.texts import texts

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = ("id", "status", "output", "error", "delayTime", "executionTime", "workerId", "retries", "more", "raw", "new")


def test_a_whole_record_is_typed() -> None:
    """Contract, Resources: fields of the job record not shown."""
    body = (
        b'{"id":"a-u1","status":"COMPLETED","delayTime":2210,"executionTime":845,"workerId":"w","retries":1,'
        b'"output":{"n":1.50},"input":{"x":1},"more":"kept","raw":"too"}'
    )
    assert service_answers.read_job(body) == JobRecord(
        id="a-u1",
        status="COMPLETED",
        delay_ms=2210,
        execution_ms=845,
        worker_id="w",
        retries=1,
        output={"n": 1.5},
        more={"input": {"x": 1}, "more": "kept", "raw": "too"},
        raw=body,
    )


def test_a_field_of_another_type_is_kept_as_it_is() -> None:
    record = service_answers.read_job(b'{"id":7,"status":"NEW","delayTime":"soon","retries":1.5,"workerId":null}')
    assert (record.id, record.status, record.delay_ms, record.retries, record.worker_id) == (
        None,
        "NEW",
        None,
        None,
        None,
    )
    assert record.more == {"id": 7, "delayTime": "soon", "retries": 1.5}


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ("IN_QUEUE", False),
        ("IN_PROGRESS", False),
        ("RUNNING", False),
        ("SOMETHING_NEW", False),
        ("COMPLETED", True),
        ("FAILED", True),
        ("CANCELLED", True),
        ("TIMED_OUT", True),
    ],
)
def test_only_known_ends_are_ends(status: str, finished: bool) -> None:
    """Contract, States: not shown. An unknown one is no end."""
    assert JobRecord(status=status).finished is finished


@pytest.mark.parametrize(
    ("error", "text", "reason"),
    [
        ('"bad"', "bad", "bad"),
        (r'"{\"error_message\":\"no\",\"error_type\":\"E\"}"', '{"error_message":"no","error_type":"E"}', "no"),
        (r'"{\"error_message\":5}"', '{"error_message":5}', '{"error_message":5}'),
        ('{"code":5}', '{"code":5}', '{"code":5}'),
        ("null", None, None),
    ],
)
def test_an_error_is_text_and_its_reason_the_message_inside(error: str, text: str | None, reason: str | None) -> None:
    record = service_answers.read_job(f'{{"status":"FAILED","error":{error}}}'.encode())
    assert (record.error, record.reason) == (text, reason)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "no JSON object"),
        (b"{}", "no status"),
        (b'{"status":""}', "no status"),
        (b'{"error":"job not found"}', "no status: job not found"),
    ],
)
def test_what_is_no_record_says_why(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        service_answers.read_job(body)


def test_a_stream_has_its_items_with_all_that_is_beside_the_output() -> None:
    part = service_answers.read_stream(
        b'{"status":"IN_PROGRESS","stream":[{"output":{"t":1.0},"metrics":{"n":2}}, "bare", {"other":1}]}'
    )
    assert (part.status, [chunk.output for chunk in part.chunks]) == ("IN_PROGRESS", [{"t": 1.0}, "bare", {"other": 1}])
    assert part.chunks[0] == Chunk(
        output={"t": 1.0}, more={"metrics": {"n": 2}}, raw=b'{"output":{"t":1.0},"metrics":{"n":2}}'
    )
    assert service_answers.read_stream(b'{"status":"IN_QUEUE"}').chunks == ()
    with pytest.raises(ValueError, match="no list"):
        service_answers.read_stream(b'{"status":"IN_QUEUE","stream":5}')


def test_a_purge_tells_how_many_went() -> None:
    purged = read_as(Purged, b'{"removed":12,"status":"completed","x":1}')
    assert (purged.removed, purged.status, purged.more) == (12, "completed", {"x": 1})


def test_an_answer_of_events_is_their_documents() -> None:
    answer = service_answers.read_answer(b': hello\n\ndata: {"a":1}\n\nevent: x\ndata:{"a":2}\n\ndata: [DONE]\n\n')
    assert answer.value == ({"a": 1}, {"a": 2})
    assert service_answers.read_answer(b"[1]").value == [1]
    with pytest.raises(ValueError, match="not JSON"):
        service_answers.read_answer(b"data: {cut")


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_whatever_json_object_comes_nothing_is_lost(members: dict[str, object]) -> None:
    body = msgspec.json.encode(members | {"status": "NEW"})
    record = service_answers.read_job(body)
    assert record.raw == body
    fields = {field.encode_name: field.name for field in msgspec.structs.fields(JobRecord)}
    for name, value in msgspec.json.decode(body).items():
        known = getattr(record, fields[name]) if name in fields and name not in ("more", "raw") else None
        assert name in record.more or known == value
