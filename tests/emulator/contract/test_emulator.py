"""The whole emulator in-process and on virtual time."""

import random
import re

import anyio
import pytest

from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import JobOperation, OperationLimit
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import HandlerInput
from tests.emulator.emulators import client_of, double, emulator, serving
from tests.emulator.receiver import Receiver
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def nap(job: HandlerInput) -> object:
    await anyio.sleep(job["input"]["n"])
    return "rested"


async def test_a_job_is_run_and_its_result_kept_for_half_an_hour() -> None:
    async with serving(emulator(nap)) as client:
        job_id = await client.run(5)
        assert (await client.status(job_id))["status"] == "IN_QUEUE"
        await anyio.sleep(1)
        assert (await client.status(job_id))["status"] == "IN_PROGRESS"
        await anyio.sleep(5)
        record = await client.status(job_id)
        assert re.fullmatch(r"[a-z0-9]{14}", record["workerId"])
        assert {**record, "workerId": "w"} == {
            "id": job_id,
            "status": "COMPLETED",
            "delayTime": 0,
            "executionTime": 5000,
            "workerId": "w",
            "output": "rested",
        }
        await anyio.sleep(1800)
        assert await client.post(f"/status/{job_id}") == (404, {"error": "job not found"})


async def test_workers_run_one_job_each_and_the_rest_waits_its_turn() -> None:
    subject = emulator(nap, workers=2)
    async with serving(subject) as client:
        for _ in range(5):
            await client.run(10)
        await anyio.sleep(1)
        assert (await client.http.get("/health")).json() == {
            "jobs": {"completed": 0, "failed": 0, "inProgress": 2, "inQueue": 3, "retried": 0},
            "workers": {"idle": 0, "initializing": 0, "ready": 0, "running": 2, "throttled": 0, "unhealthy": 0},
        }
        await anyio.sleep(28)
        assert subject.world.health("ep").jobs.completed == 4
        await anyio.sleep(2)
        assert subject.world.health("ep").jobs.completed == 5


async def test_jobs_queued_before_the_emulator_serves_are_run_once_it_does() -> None:
    subject = emulator()
    async with client_of(subject) as client:
        job_id = await client.run(4)
    async with serving(subject) as client:
        await anyio.wait_all_tasks_blocked()
        assert (await client.status(job_id))["output"] == {"double": 8}


async def test_after_serving_jobs_are_queued_and_no_more() -> None:
    subject = emulator()
    async with serving(subject):
        pass
    async with client_of(subject) as client:
        assert (await client.status(await client.run()))["status"] == "IN_QUEUE"


async def test_a_job_that_is_cancelled_stops_its_handler_and_frees_the_worker() -> None:
    subject = emulator(nap, workers=1)
    async with serving(subject) as client:
        long, short = await client.run(500), await client.run(1)
        await anyio.sleep(1)
        assert await client.post(f"/cancel/{long}") == (200, {"id": long, "status": "CANCELLED"})
        await anyio.sleep(2)
        assert (await client.status(short))["status"] == "COMPLETED"


async def test_a_job_that_times_out_stops_its_handler_and_can_be_retried() -> None:
    subject = emulator(nap, workers=1)
    async with serving(subject) as client:
        job_id = await client.run(100, policy={"executionTimeout": 5000})
        await anyio.sleep(6)
        assert (await client.status(job_id))["status"] == "TIMED_OUT"
        assert await client.post(f"/retry/{job_id}") == (200, {"id": job_id, "status": "IN_QUEUE"})
        await anyio.sleep(1)
        assert (await client.status(job_id))["status"] == "IN_PROGRESS"
        assert (await client.post(f"/retry/{job_id}"))[0] == 400


async def test_a_result_that_comes_at_the_very_moment_of_the_time_out_is_too_late() -> None:
    async with serving(emulator(nap)) as client:
        job_id = await client.run(5, policy={"executionTimeout": 5000})
        await anyio.sleep(6)
        assert (await client.status(job_id))["status"] == "TIMED_OUT"


async def test_the_queue_can_be_purged() -> None:
    async with serving(emulator(nap, workers=0)) as client:
        await client.run()
        assert await client.post("/purge-queue") == (200, {"removed": 1, "status": "completed"})


async def test_a_webhook_is_delivered_when_a_job_ends() -> None:
    receiver = Receiver(500, 200)
    subject = emulator(deliver=receiver)
    async with serving(subject) as client:
        await client.run(3, webhook="http://listener/hook")
        await anyio.sleep(60)
    assert receiver.times == [0.0, 10.0]
    assert b'"output":{"double": 6}' in receiver.calls[0][2]


async def test_a_dead_workers_job_is_run_again_by_another() -> None:
    """Contract, Automatic retry after a failure."""
    subject = emulator(faults=Faults(dead_worker=1.0), workers=1)
    async with serving(subject) as client:
        job_id = await client.run()
        await anyio.sleep(1)
        first = (await client.status(job_id))["workerId"]
        await anyio.sleep(40)
        subject.dice.faults = Faults()
        await anyio.sleep(41)
        record = await client.status(job_id)
        assert (record["status"], record["retries"], record["workerId"] == first) == ("FAILED", 1, False)
        assert (await client.status(await client.run()))["status"] == "IN_QUEUE"
        await anyio.sleep(1)
        assert subject.world.health("ep").jobs.completed == 1


async def test_a_job_that_is_dispatched_twice_is_run_twice_and_shown_once() -> None:
    subject = emulator(nap, faults=Faults(duplicate_dispatch=1.0), workers=2)
    async with serving(subject) as client:
        job_id = await client.run(5)
        await anyio.sleep(4)
        assert (await client.status(job_id))["status"] == "IN_PROGRESS"
        await anyio.sleep(4)
        record = await client.status(job_id)
        assert (record["status"], record["output"]) == ("COMPLETED", "rested")
        assert subject.stats().jobs[job_id].paid == 2
        health = subject.world.health("ep")
        assert (health.jobs.completed, health.jobs.in_progress, health.workers.ready) == (1, 0, 2)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/other/health", 404),
        ("POST", "/v2/ep/status/unknown", 404),
        ("POST", "/v2/ep/cancel/unknown", 404),
    ],
)
async def test_what_does_not_exist_is_said_so(method: str, path: str, status: int) -> None:
    async with client_of(emulator()) as client:
        assert (await client.http.request(method, f"http://emulator{path}")).status_code == status


async def test_a_wrong_key_is_a_401_and_a_bad_body_a_400() -> None:
    async with client_of(emulator(keys=("right",))) as client:
        assert (await client.http.get("/health")).status_code == 401
        headers = {"authorization": "right"}
        answer = await client.http.post("/run", content=b'{"input":[]}', headers=headers)
        assert (answer.status_code, answer.json()) == (400, {"error": "input must be a JSON object"})


async def test_a_body_over_the_limit_is_a_413() -> None:
    subject = emulator(body_bytes_max=100)
    async with client_of(subject) as client:
        body = b'{"input":{"a":"' + b"x" * 82 + b'"}}'
        assert (await client.http.post("/run", content=body + b" ")).status_code == 413
        assert (await client.http.post("/run", content=body)).status_code == 200
    assert len(subject.world.table.by_id) == 1


async def test_requests_over_the_limit_are_429_with_retry_after_if_asked_for() -> None:
    subject = emulator(limits={JobOperation.RUN: OperationLimit(requests=1)}, retry_after=True)
    async with client_of(subject) as client:
        await client.run()
        answer = await client.http.post("/run", json={"input": {}})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "10")
    figures = subject.gate.meters.figures("ep", JobOperation.RUN)
    assert (figures.accepted, figures.refused, figures.first_at) == (1, 1, EPOCH_AT)


async def test_concurrency_is_counted_until_just_before_the_answer() -> None:
    slow = Faults(slow_answer=1.0, slow_answer_s=3.0)
    subject = emulator(limits={JobOperation.HEALTH: OperationLimit(concurrent=2)}, faults=slow)
    statuses: list[int] = []

    async with client_of(subject) as client, anyio.create_task_group() as tasks:

        async def ask() -> None:
            statuses.append((await client.http.get("/health")).status_code)

        for _ in range(3):
            tasks.start_soon(ask)
        await anyio.sleep(3.5)
        tasks.start_soon(ask)
    assert sorted(statuses) == [200, 200, 200, 429]


async def test_a_client_that_gives_up_no_longer_counts() -> None:
    subject = emulator(
        limits={JobOperation.HEALTH: OperationLimit(concurrent=1)}, faults=Faults(slow_answer=1.0, slow_answer_s=60.0)
    )
    async with client_of(subject) as client:
        with anyio.move_on_after(1):
            await client.http.get("/health")
        subject.dice.faults = Faults()
        assert (await client.http.get("/health")).status_code == 200


async def test_the_wildcard_serves_every_endpoint_with_a_queue_of_its_own() -> None:
    settings = EmulatorSettings(endpoints={"*": nap, "ep": double})
    subject = Emulator(settings, clock=VirtualClock(), rng=random.Random(1))
    async with serving(subject) as client:
        other = (await client.http.post("http://emulator/v2/other/run", json={"input": {"n": 1}})).json()["id"]
        named = await client.run(2)
        await anyio.sleep(2)
        assert (await client.status(named))["output"] == {"double": 4}
        assert (await client.http.get(f"http://emulator/v2/other/status/{other}")).json()["output"] == "rested"
        assert (await client.http.get(f"/status/{other}")).status_code == 404
