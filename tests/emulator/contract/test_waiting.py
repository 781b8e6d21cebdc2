"""`/runsync`, `/status-sync`, `/stream`, `/requests`, `/openai/*`, scaling and stats, in-process and on virtual time."""

from collections.abc import AsyncIterator

import anyio
import pytest

from orchestrator.emulator import progress_update
from orchestrator.emulator.contract.answers import ErrorBodies
from orchestrator.emulator.contract.limits import JobOperation, OperationLimit
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.workers.handlers import Handler, HandlerInput
from tests.emulator.emulators import double, emulator, serving

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def nap(job: HandlerInput) -> object:
    progress_update(job, {"percent": 50})
    await anyio.sleep(job["input"]["n"])
    return "rested"


async def count(job: HandlerInput) -> AsyncIterator[object]:
    for n in range(job["input"]["n"]):
        await anyio.sleep(1)
        yield {"n": n}
    if job["input"].get("fail"):
        raise ValueError("broken")


async def chat(job: HandlerInput) -> object:
    return {"route": job["input"]["openai_route"], "model": job["input"]["openai_input"]["model"]}


async def chatter(job: HandlerInput) -> AsyncIterator[object]:
    yield 'data: {"delta":"a"}\n\n'
    yield {"delta": "b"}


async def test_runsync_answers_with_the_record_at_the_jobs_end() -> None:
    async with serving(emulator(nap)) as client:
        record = (await client.http.post("/runsync", json={"input": {"n": 3}})).json()
    assert record["id"].startswith("sync-")
    assert (record["status"], record["output"], record["executionTime"]) == ("COMPLETED", "rested", 3000)


async def test_runsync_that_outlives_its_wait_leaves_the_job_running_for_status() -> None:
    """Contract, sync results: kept for one minute."""
    async with serving(emulator(nap)) as client:
        accepted = (await client.http.post("/runsync?wait=1000", json={"input": {"n": 5}})).json()
        assert accepted == {"id": accepted["id"], "status": "IN_PROGRESS"}
        record = (await client.http.get(f"/status-sync/{accepted['id']}")).json()
        assert record["output"] == "rested"
        await anyio.sleep(59)
        assert (await client.status(accepted["id"]))["status"] == "COMPLETED"
        await anyio.sleep(1)
        assert (await client.http.get(f"/status/{accepted['id']}")).status_code == 404
        assert (await client.http.get(f"/status-sync/{accepted['id']}")).status_code == 404


@pytest.mark.parametrize("path", ["/runsync?wait=soon", "/status/x?ttl=-1"])
async def test_a_number_that_is_none_is_a_400(path: str) -> None:
    async with serving(emulator()) as client:
        method = "POST" if "runsync" in path else "GET"
        assert (await client.http.request(method, path, json={"input": {}})).status_code == 400


async def test_a_job_that_is_purged_ends_the_wait_for_it() -> None:
    async with serving(emulator(workers=0)) as client, anyio.create_task_group() as tasks:

        async def wait() -> None:
            answer = await client.http.post("/runsync", json={"input": {"n": 1}})
            assert answer.json()["status"] == "IN_QUEUE"

        tasks.start_soon(wait)
        await anyio.sleep(1)
        assert (await client.post("/purge-queue"))[1]["removed"] == 1


async def test_progress_is_the_output_of_a_job_in_progress_and_of_no_other() -> None:
    async with serving(emulator(nap)) as client:
        job_id = await client.run(2)
        await anyio.sleep(1)
        assert (await client.status(job_id))["output"] == {"percent": 50}
        await anyio.sleep(1.5)
        assert (await client.status(job_id))["output"] == "rested"


async def test_a_stream_drains_and_is_held_while_it_is_empty() -> None:
    async with serving(emulator(count)) as client:
        job_id = await client.run(2)
        parts = [(await client.http.get(f"/stream/{job_id}")).json() for _ in range(4)]
        assert [part["stream"] for part in parts] == [[{"output": {"n": 0}}], [{"output": {"n": 1}}], [], []]
        assert parts[-1]["status"] == "COMPLETED"
        assert "output" not in await client.status(job_id)
        assert (await client.http.get("/stream/unknown")).status_code == 404


async def test_an_empty_stream_of_a_queued_job_is_answered_after_the_wait() -> None:
    async with serving(emulator(count, workers=0)) as client:
        job_id = await client.run(2)
        begin = anyio.current_time()
        part = (await client.http.post(f"/stream/{job_id}?wait=2000")).json()
        assert (part, anyio.current_time() - begin) == ({"status": "IN_QUEUE", "stream": []}, 2.0)


async def test_a_generator_that_raises_fails_its_job() -> None:
    async with serving(emulator(count)) as client:
        record = (await client.http.post("/runsync", json={"input": {"n": 1, "fail": True}})).json()
    assert record["status"] == "FAILED"
    assert record["error"].startswith("handler: broken \ntraceback: ")


async def test_the_latest_requests_are_listed_without_their_payloads() -> None:
    async with serving(emulator()) as client:
        first, second = await client.run(1), await client.run(2)
        await anyio.sleep(1)
        listed = (await client.http.get("/requests")).json()["requests"]
    assert [record["id"] for record in listed] == [second, first]
    assert {record["status"] for record in listed} == {"COMPLETED"}
    assert "output" not in listed[0]


async def test_metrics_name_the_workers_that_are_ready() -> None:
    """as observed."""
    async with serving(emulator(workers=2)) as client:
        await client.run()
        await anyio.sleep(1)
        metrics = (await client.http.get("/metrics")).json()
    assert len(metrics["readyWorkers"]) == metrics["workers"]["ready"] == 2


async def test_an_openai_request_is_a_job_and_its_output_the_answer() -> None:
    async with serving(emulator(chat)) as client:
        answer = await client.http.post("/openai/v1/chat/completions", json={"model": "m"})
        assert answer.json() == {"route": "/v1/chat/completions", "model": "m"}
        assert (await client.http.get("/openai/v1/models")).status_code == 500
        assert (await client.http.post("/openai/v1/x", content=b"[")).status_code == 400


async def test_an_openai_stream_brings_the_chunks_as_events() -> None:
    async with serving(emulator(chatter)) as client:
        answer = await client.http.post("/openai/v1/chat/completions", json={"stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text == 'data: {"delta":"a"}\n\ndata: {"delta": "b"}\n\n'


async def says(job: HandlerInput) -> str:
    return "line one\n\nline two"


async def speaks(job: HandlerInput) -> AsyncIterator[object]:
    yield "hel"
    yield "lo\n"
    yield {"n": 1}


@pytest.mark.parametrize(
    ("handler", "events"),
    [(says, ['"line one\\n\\nline two"', "[DONE]"]), (speaks, ['"hel"', '"lo\\n"', '{"n": 1}', "[DONE]"])],
)
async def test_what_is_no_event_itself_becomes_a_valid_one(handler: Handler, events: list[str]) -> None:
    async with serving(emulator(handler)) as client:
        text = (await client.http.post("/openai/v1/x", json={"stream": True})).text
    assert text == "".join(f"data: {event}\n\n" for event in events)


async def test_a_plain_handler_answers_an_openai_stream_in_one_event() -> None:
    async with serving(emulator(chat)) as client:
        text = (await client.http.post("/openai/v1/x", json={"stream": True, "model": "m"})).text
        assert text == 'data: {"route": "/v1/x", "model": "m"}\n\ndata: [DONE]\n\n'
        text = (await client.http.post("/openai/v1/x", json={"stream": True})).text
        assert text.startswith('data: {"error":')


async def test_low_priority_jobs_start_no_workers() -> None:
    """Contract, policy: lowPriority does not trigger worker scaling."""
    scaling = Scaling(workers_max=1, cold_start_s=3, idle_timeout_s=5)
    async with serving(emulator(double, scaling=scaling)) as client:
        low = await client.run(1, policy={"lowPriority": True})
        await anyio.sleep(600)
        assert (await client.status(low))["status"] == "IN_QUEUE"
        normal = await client.run(2)
        await anyio.sleep(1)
        assert (await client.http.get("/health")).json()["workers"]["initializing"] == 1
        await anyio.sleep(3)
        records = [await client.status(job_id) for job_id in (low, normal)]
        assert [record["status"] for record in records] == ["COMPLETED", "COMPLETED"]
        assert records[1]["delayTime"] == 3000
        await anyio.sleep(6)
        assert (await client.http.get("/health")).json()["workers"]["ready"] == 0


async def test_running_workers_raise_the_limits() -> None:
    """Contract, Limits, dynamic rule."""
    subject = emulator(workers=3, requests_per_worker=5, limits={JobOperation.STATUS: OperationLimit(requests=2)})
    async with serving(subject) as client:
        statuses = [(await client.http.get("/status/x")).status_code for _ in range(16)]
    assert statuses == [404] * 15 + [429]


async def test_a_full_queue_is_a_429_if_there_is_such_a_rule() -> None:
    async with serving(emulator(workers=0, queue_per_worker=500)) as client:
        for _ in range(51):
            await client.run()
        assert (await client.http.post("/run", json={"input": {}})).status_code == 429


@pytest.mark.parametrize(
    ("form", "kind", "text"),
    [
        ("json", "application/json", '{"error":"job not found"}'),
        ("plain", "text/plain", "job not found"),
        ("html", "text/html", "<!DOCTYPE html>"),
        ("empty", "application/json", ""),
    ],
)
async def test_bodies_of_errors_have_the_chosen_form(form: str, kind: str, text: str) -> None:
    async with serving(emulator(error_bodies=ErrorBodies(form))) as client:
        answer = await client.http.get("/status/unknown")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith(kind)
    assert answer.text.startswith(text)
    assert bool(answer.text) is (form != "empty")


async def test_a_result_can_be_let_go_sooner() -> None:
    async with serving(emulator()) as client:
        job_id = await client.run()
        await anyio.sleep(1)
        assert (await client.http.get(f"/status/{job_id}?ttl=5000")).json()["status"] == "COMPLETED"
        await anyio.sleep(5)
        assert (await client.http.get(f"/status/{job_id}")).status_code == 404


async def test_the_stats_tell_who_was_paid_and_what_was_read() -> None:
    async with serving(emulator()) as client:
        read, unread = await client.run(), await client.run()
        await anyio.sleep(1)
        await client.status(read)
        stats = (await client.http.get("http://emulator/emulator/stats")).json()
        assert {key: (job["paid"], job["result_read"]) for key, job in stats["jobs"].items()} == {
            read: (1, True),
            unread: (1, False),
        }
        assert stats["endpoints"]["ep"]["operations"]["run"]["accepted"] == 2
        await anyio.sleep(1800)
        stats = (await client.http.get("http://emulator/emulator/stats?jobs=5")).json()
        assert (stats["jobs_known"], stats["endpoints"]["ep"]["results_never_read"]) == (0, 1)


async def test_time_can_run_faster_than_the_clock() -> None:
    async with serving(emulator(workers=0, time_scale=60.0)) as client:
        job_id = await client.run(1, policy={"ttl": 60_000})
        await anyio.sleep(0.9)
        assert (await client.status(job_id))["status"] == "IN_QUEUE"
        await anyio.sleep(0.2)
        assert (await client.http.get(f"/status/{job_id}")).status_code == 404


async def test_an_in_process_handler_can_ask_for_a_new_worker() -> None:
    async def refresh(job: HandlerInput) -> object:
        return {"refresh_worker": True, "n": job["input"]["n"]}

    async with serving(emulator(refresh, workers=1)) as client:
        jobs = [await client.run(n) for n in range(2)]
        await anyio.sleep(1)
        records = [await client.status(job_id) for job_id in jobs]
    assert [record["output"] for record in records] == [{"n": 0}, {"n": 1}]
    assert records[0]["workerId"] != records[1]["workerId"]


async def test_an_openai_request_is_refused_like_any_other() -> None:
    async with serving(
        emulator(chat, keys=("key",), limits={JobOperation.OPENAI: OperationLimit(requests=1)})
    ) as client:
        assert (await client.http.post("/openai/v1/x", headers={"authorization": "wrong"})).status_code == 401
        assert (await client.http.post("/openai/v1/x", json={"model": "m"})).status_code == 200
        assert (await client.http.post("/openai/v1/x", json={"model": "m"})).status_code == 429
