"""The official worker, unmodified, as processes that the emulator starts: the states that were observed."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.emulator.serving import serve
from tests.emulator.served import ServedClient, talking_to

pytestmark = [pytest.mark.anyio, pytest.mark.system]

PROGRAM = Path(__file__).with_name("official_worker.py")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def client(anyio_backend: str) -> AsyncIterator[ServedClient]:
    """Ten seconds a second, so that a worker is given up after four."""
    async with (
        serve(
            command=(sys.executable, str(PROGRAM)), workers=1, time_scale=10.0, ping_interval_s=1.0, take_hold_s=2.0
        ) as service,
        talking_to(service) as client,
    ):
        yield client


@pytest.mark.parametrize("value", [{"a": 1}, "é", 5, [1, 2], True, None])
async def test_whatever_a_handler_returns_is_the_output_of_a_completed_job(client: ServedClient, value: Any) -> None:
    record = await client.outcome("plain", {"do": "return", "value": value})
    assert (record["status"], record["output"]) == ("COMPLETED", value)
    assert {"delayTime", "executionTime", "workerId"} <= record.keys()


async def test_an_empty_object_is_no_output(client: ServedClient) -> None:
    record = await client.outcome("plain", {"do": "return", "value": {}})
    assert record["status"] == "COMPLETED"
    assert "output" not in record


async def test_a_returned_error_is_a_failure_beside_what_else_was_returned(client: ServedClient) -> None:
    record = await client.outcome("plain", {"do": "return", "value": {"error": "x", "p": 1}})
    assert (record["status"], record["error"], record["output"]) == ("FAILED", "x", {"p": 1})


async def test_an_error_that_is_no_text_is_lost_and_the_job_completed(client: ServedClient) -> None:
    record = await client.outcome("plain", {"do": "return", "value": {"error": {"code": 5}}})
    assert record["status"] == "COMPLETED"
    assert record.keys().isdisjoint({"output", "error"})


async def test_an_exception_is_a_failure_described_by_a_document_inside_a_text(client: ServedClient) -> None:
    record = await client.outcome("plain", {"do": "raise", "value": "bad"})
    assert record["status"] == "FAILED"
    error = json.loads(record["error"])
    assert (error["error_message"], error["worker_id"]) == ("bad", record["workerId"])


async def test_progress_is_the_output_until_the_job_ends(client: ServedClient) -> None:
    job_id = await client.submit("plain", {"do": "progress", "value": {"percent": 50}})
    await client.until("plain", job_id, status="IN_PROGRESS", output={"percent": 50})
    assert (await client.end_of("plain", job_id))["output"] == "done"


async def test_a_result_that_is_not_json_is_never_posted_and_the_job_times_out(client: ServedClient) -> None:
    record = await client.outcome("plain", {"do": "not json"}, policy={"executionTimeout": 15_000})
    assert record["status"] == "TIMED_OUT"


async def test_refreshing_by_the_result_completes_the_job_and_replaces_the_worker(client: ServedClient) -> None:
    first = await client.outcome("plain", {"do": "return", "value": {"refresh_worker": True, "a": 1}})
    assert (first["status"], first["output"]) == ("COMPLETED", {"a": 1})
    second = await client.outcome("plain", {"do": "who"})
    assert second["status"] == "COMPLETED"
    assert second["workerId"] != first["workerId"]


async def test_refreshing_by_the_configuration_gives_each_job_a_new_worker(client: ServedClient) -> None:
    first, second = [await client.outcome("refreshing", {"do": "who"}) for _ in range(2)]
    assert (first["status"], second["status"]) == ("COMPLETED", "COMPLETED")
    assert first["workerId"] != second["workerId"]


async def test_a_generators_chunks_are_streamed_once_and_are_no_output(client: ServedClient) -> None:
    job_id = await client.submit("stream", {"n": 3, "pause": 0.2})
    chunks: list[Any] = []
    part: dict[str, Any] = {"status": "IN_QUEUE"}
    while part["status"] != "COMPLETED":
        part = (await client.http.get(f"/stream/stream/{job_id}", params={"wait": 300_000})).json()
        chunks += part["stream"]
    assert chunks == [{"output": {"n": n}} for n in range(3)]
    assert "output" not in await client.status("stream", job_id)


async def test_an_aggregating_generator_has_its_chunks_as_output_too(client: ServedClient) -> None:
    record = await client.outcome("aggregate", {"n": 2})
    assert (record["status"], record["output"]) == ("COMPLETED", [{"n": 0}, {"n": 1}])


@pytest.mark.parametrize(("fail", "error"), [("raise", "handler: broken"), ("yield", "out of chunks")])
async def test_a_generator_that_fails_fails_its_job(client: ServedClient, fail: str, error: str) -> None:
    job_id = await client.submit("stream", {"n": 1, "fail": fail})
    record = await client.end_of("stream", job_id)
    assert record["status"] == "FAILED"
    assert record["error"].startswith(error)
    part = (await client.http.get(f"/stream/stream/{job_id}")).json()
    assert part == {"status": "FAILED", "stream": [{"output": {"n": 0}}]}


async def test_a_cancelled_job_is_stopped_at_the_worker_which_goes_on(client: ServedClient, tmp_path: Path) -> None:
    mark = tmp_path / "stopped"
    job_id = await client.submit("sleeping", {"seconds": 300, "mark": str(mark)})
    record = await client.until("sleeping", job_id, status="IN_PROGRESS")
    answer = await client.http.post(f"/sleeping/cancel/{job_id}")
    assert answer.json() == {"id": job_id, "status": "CANCELLED"}
    after = await client.outcome("sleeping", {})
    assert after["status"] == "FAILED"  # an empty input is lost on the way, and its job silent twice (as observed)
    assert (after["retries"], after["error"]) == (1, "job timed out after 1 retries")
    assert mark.read_text() == job_id
    assert (await client.outcome("sleeping", {"seconds": 0.1}))["workerId"] == record["workerId"]
    assert (await client.status("sleeping", job_id))["status"] == "CANCELLED"


async def test_a_worker_that_does_not_listen_when_its_job_is_cancelled_is_replaced(client: ServedClient) -> None:
    before = await client.outcome("aggregate", {"n": 1})
    job_id = await client.submit("aggregate", {"n": 1, "pause": 600})
    await client.until("aggregate", job_id, status="IN_PROGRESS")
    await client.http.post(f"/aggregate/cancel/{job_id}")
    after = await client.outcome("aggregate", {"n": 1})
    assert (after["status"], after["workerId"] == before["workerId"]) == ("COMPLETED", False)


async def test_a_concurrent_worker_holds_several_jobs_at_once(client: ServedClient) -> None:
    jobs = [await client.submit("concurrent", {"seconds": 1.5}) for _ in range(5)]
    for job_id in jobs[1:]:
        await client.until("concurrent", job_id, status="IN_PROGRESS")
    records = [await client.end_of("concurrent", job_id) for job_id in jobs]
    assert {record["status"] for record in records} == {"COMPLETED"}
    assert len({record["workerId"] for record in records}) == 1


async def test_a_worker_that_is_told_to_go_finishes_its_job_first(client: ServedClient) -> None:
    job_id = await client.submit("sleeping", {"seconds": 1.0})
    worker_id = (await client.until("sleeping", job_id, status="IN_PROGRESS"))["workerId"]
    client.service.emulator.world.retire("sleeping", worker_id)
    next_id = await client.submit("sleeping", {"seconds": 0.1})
    assert (await client.end_of("sleeping", job_id))["status"] == "COMPLETED"
    record = await client.end_of("sleeping", next_id)
    assert (record["status"], record["workerId"] == worker_id) == ("COMPLETED", False)
    with anyio.fail_after(20):
        while (await client.http.get("/sleeping/health")).json()["workers"]["running"]:
            pass
