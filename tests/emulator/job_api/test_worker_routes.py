"""The worker protocol, call by call, where the official worker does not go (as observed)."""

from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.contract.faults import Faults
from tests.emulator.emulators import Client, emulator, serving

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def without_workers(**settings: Any) -> Any:
    subject = emulator(workers=0, **settings)
    subject.world.endpoints.deploy("ep", subject.world.endpoints.fleet("ep").scaling, announced=True)
    return subject


async def take(client: Client, worker: str = "w1") -> httpx.Response:
    return await client.http.get(f"/job-take/{worker}?gpu=CPU&job_in_progress=0")


async def done(client: Client, job_id: str, body: bytes, worker: str = "w1", stream: str = "false") -> int:
    answer = await client.http.post(f"/job-done/{worker}/{job_id}?gpu=CPU&isStream={stream}", content=body)
    return answer.status_code


async def test_a_job_is_taken_and_done_by_a_worker_from_elsewhere() -> None:
    async with serving(without_workers()) as client:
        job_id = await client.run(3, s3Config={"bucketName": "b"})
        assert (await take(client)).json() == {"id": job_id, "input": {"n": 3}, "s3Config": {"bucketName": "b"}}
        assert (await client.http.get("/health")).json()["workers"]["running"] == 1
        assert await done(client, job_id, '{"output": "é"}'.encode()) == 200
        assert (await client.status(job_id))["output"] == "é"
        assert await done(client, job_id, b'{"output": 2}') == 200
        assert await done(client, job_id, b'{"status":"IN_PROGRESS","output":"late"}') == 200
        assert (await client.status(job_id))["output"] == "é"


async def test_a_worker_waits_for_a_job_that_comes_and_no_longer_than_the_hold() -> None:
    async with serving(without_workers()) as client:
        begin = anyio.current_time()
        assert (await take(client)).status_code == 204
        assert anyio.current_time() - begin == 20.0
        assert (await client.http.get("/job-stop/w1?gpu=CPU")).status_code == 204
        assert (await client.http.get("/job-take-batch/w1?batch_size=0")).status_code == 400


async def test_a_batch_is_an_array_of_what_there_is() -> None:
    async with serving(without_workers()) as client:
        jobs = [await client.run(n) for n in range(3)]
        taken = (await client.http.get("/job-take-batch/w1?gpu=CPU&batch_size=2&job_in_progress=0")).json()
        assert [job["id"] for job in taken] == jobs[:2]


async def test_a_job_that_no_ping_names_is_given_to_another_once_and_then_fails() -> None:
    """As observed."""
    async with serving(without_workers()) as client:
        job_id = await client.run()
        await take(client)
        for _ in range(10):
            await anyio.sleep(10)
            await client.http.get(f"/ping/w1?gpu=CPU&job_id={job_id}&runpod_version=1.12.0")
        assert (await client.status(job_id))["status"] == "IN_PROGRESS"
        await anyio.sleep(40)
        assert (await client.status(job_id))["status"] == "IN_QUEUE"
        assert (await take(client, "w2")).json()["id"] == job_id
        assert await done(client, job_id, b"{}", "w1") == 200
        await anyio.sleep(40)
        record = await client.status(job_id)
        assert (record["status"], record["retries"]) == ("FAILED", 1)
        assert record["error"] == "job timed out after 1 retries"


async def test_a_worker_that_a_fault_has_made_silent_never_hears_of_its_job_which_another_gets() -> None:
    subject = without_workers(faults=Faults(dead_worker=1.0))
    async with serving(subject) as client, anyio.create_task_group() as tasks:
        taken: list[int] = []

        async def wait_for_a_job() -> None:
            taken.append((await take(client)).status_code)

        tasks.start_soon(wait_for_a_job)
        await anyio.sleep(1)
        job_id = await client.run()
        assert (await client.status(job_id))["status"] == "IN_PROGRESS"
        subject.dice.faults = Faults()
        await anyio.sleep(41)
        assert taken == [204]
        assert (await take(client, "w2")).json()["id"] == job_id


async def test_a_result_after_the_ttl_is_a_404() -> None:
    async with serving(without_workers()) as client:
        job_id = await client.run(policy={"ttl": 10_000})
        await take(client)
        await anyio.sleep(11)
        assert await done(client, job_id, b"{}") == 404
        assert (
            await client.http.post(f"/job-stream/w1/{job_id}?isStream=false", content=b'{"output":1}')
        ).status_code == 404


@pytest.mark.parametrize("body", [b"", b"nonsense", b'{"output": NaN}', b"[]", b"\xff"])
async def test_a_report_that_is_not_json_is_a_400_and_the_job_goes_on(body: bytes) -> None:
    async with serving(without_workers()) as client:
        job_id = await client.run()
        await take(client)
        assert await done(client, job_id, body) == 400
        assert (await client.status(job_id))["status"] == "IN_PROGRESS"


async def test_a_result_that_is_too_long_completes_its_job_without_output() -> None:
    """As observed: a refused result is seen as COMPLETED without output."""
    async with serving(without_workers()) as client:
        job_id = await client.run()
        await take(client)
        assert await done(client, job_id, b'"' + b"x" * (20 * 1024 * 1024) + b'"') == 400
        record = await client.status(job_id)
        assert record["status"] == "COMPLETED"
        assert "output" not in record


async def test_a_worker_with_a_wrong_key_is_made_to_wait() -> None:
    async with serving(without_workers(keys=("key",))) as client:
        begin = anyio.current_time()
        answer = await client.http.get("/job-take/w1?gpu=CPU", headers={"authorization": "wrong"})
        assert (answer.status_code, anyio.current_time() - begin) == (401, 1.0)
        assert (await client.http.get("http://emulator/v2/other/job-take/w1")).status_code == 404


async def test_a_worker_that_is_to_go_gets_no_more_jobs() -> None:
    subject = without_workers()
    async with serving(subject) as client, anyio.create_task_group() as tasks:

        async def wait() -> None:
            assert (await take(client)).status_code == 204
            assert anyio.current_time() < 20

        tasks.start_soon(wait)
        await anyio.sleep(1)
        subject._workforce.api.dismiss("ep", "w1")
        await client.run()
        assert (await take(client)).status_code == 204
        assert (await client.http.get("/job-stop/w1")).status_code == 204
        subject._workforce.api.forget("w1")
        assert (await take(client)).status_code == 200


async def test_a_stop_is_told_again_while_the_pings_name_the_job() -> None:
    async with serving(without_workers()) as client:
        job_id = await client.run()
        await take(client)
        await client.post(f"/cancel/{job_id}")
        for _ in range(2):
            assert (await client.http.get("/job-stop/w1")).json() == {"jobsToStop": [job_id]}
            await client.http.get(f"/ping/w1?job_id={job_id}")
