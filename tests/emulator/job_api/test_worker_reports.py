"""What the official worker posts, as it was measured (as observed)."""

import pytest

from orchestrator.emulator.job_api.worker_reports import DoneReport, parse_chunk, parse_done
from orchestrator.emulator.jobs.jobs import WorkerResult


@pytest.mark.parametrize(
    ("body", "result"),
    [
        (b'{"output": {"a": 1}}', WorkerResult(output=b'{"a": 1}')),
        (b'{"output": null}', WorkerResult(output=b"null")),
        (b"{}", WorkerResult()),
        (b'{"output":{"p":1},"error":"x"}', WorkerResult(output=b'{"p":1}', error="x")),
        (b'{"error":{"code":5}}', WorkerResult()),
        (b'{"output":1,"error":""}', WorkerResult(output=b"1")),
        (b'{"output":1,"error":null}', WorkerResult(output=b"1")),
        (b'{"output":{"a":1},"stopPod":true}', WorkerResult(output=b'{"a":1}', refresh=True)),
    ],
)
def test_a_done_body_is_a_result(body: bytes, result: WorkerResult) -> None:
    assert parse_done(body, is_stream=False) == DoneReport(result=result)


def test_progress_has_a_status_and_is_no_result() -> None:
    body = b'{"status":"IN_PROGRESS","output":[5]}'
    assert parse_done(body, is_stream=False) == DoneReport(progress=b"[5]")
    assert parse_done(b'{"status":"IN_PROGRESS"}', is_stream=False) == DoneReport(progress=b"null")


def test_only_a_stream_may_end_without_output_by_an_empty_list() -> None:
    assert parse_done(b'{"output":[]}', is_stream=True).result == WorkerResult()
    assert parse_done(b'{"output":[]}', is_stream=False).result == WorkerResult(output=b"[]")


def test_a_chunk_is_the_output_of_its_body() -> None:
    assert parse_chunk(b'{"output": {"n": 1}}') == b'{"n": 1}'
