"""Endpoints that were created: the whole emulator, in-process and on virtual time."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import HandlerInput
from tests.emulator.accounts import TEMPLATE
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def nap(job: HandlerInput) -> object:
    await anyio.sleep(job["input"]["n"])
    return "rested"


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[Emulator, httpx.AsyncClient]]:
    chosen = EmulatorSettings(**{"endpoints": {"*": nap}, **settings})
    subject = Emulator(chosen, clock=VirtualClock(), rng=random.Random(1))
    headers = {"authorization": "Bearer key"}
    transport = httpx.ASGITransport(subject.app)
    async with (
        anyio.create_task_group() as tasks,
        httpx.AsyncClient(transport=transport, base_url="http://emulator", headers=headers) as http,
    ):
        await tasks.start(subject.serve)
        yield subject, http
        tasks.cancel_scope.cancel()


async def created(subject: Emulator, http: httpx.AsyncClient, **change: Any) -> str:
    template = subject.account.templates.save(TEMPLATE)
    answer = await http.post("/v1/endpoints", json={"templateId": template.id, "workersMax": 1, **change})
    endpoint: str = answer.json()["id"]
    return endpoint


async def test_the_job_api_answers_404_until_the_endpoint_has_propagated() -> None:
    """as observed; also where any other id would do."""
    async with serving(propagation_s=5.0) as (subject, http):
        endpoint = await created(subject, http)
        assert (await http.get(f"/v2/{endpoint}/health")).status_code == 404
        await anyio.sleep(5)
        assert (await http.get(f"/v2/{endpoint}/health")).status_code == 200
        job = (await http.post(f"/v2/{endpoint}/run", json={"input": {"n": 1}})).json()["id"]
        await anyio.sleep(2)
        assert (await http.get(f"/v2/{endpoint}/status/{job}")).json()["output"] == "rested"


async def test_deleting_an_endpoint_ends_its_jobs_and_frees_its_template() -> None:
    """contract, serverless, console operations; templates, Deletion rule."""
    async with serving(propagation_s=0) as (subject, http):
        endpoint = await created(subject, http)
        for _ in range(2):
            await http.post(f"/v2/{endpoint}/run", json={"input": {"n": 500}})
        await anyio.sleep(1)
        assert len(subject.world.table.by_id) == 2
        assert (await http.delete(f"/v1/endpoints/{endpoint}")).status_code == 204
        assert len(subject.world.table.by_id) == 0
        delete = {"query": 'mutation { deleteTemplate(templateName: "t") }'}
        assert "a moment ago" in (await http.post("/graphql", json=delete)).text
        await anyio.sleep(120)
        assert (await http.post("/graphql", json=delete)).json() == {"data": {"deleteTemplate": None}}


async def test_the_workers_of_an_endpoint_are_shown_if_asked_for() -> None:
    """as observed, with the key that the service shows in each."""
    async with serving(propagation_s=0, scaling=Scaling(cold_start_s=30)) as (subject, http):
        endpoint = await created(subject, http, workersMin=1, workersMax=2, gpuTypeIds=["A"])
        await anyio.sleep(1)
        path = f"/v1/endpoints/{endpoint}"
        assert "workers" not in (await http.get(path)).json()
        (worker,) = (await http.get(f"{path}?includeWorkers=true")).json()["workers"]
        assert (worker["endpointId"], worker["lastStatusChange"], worker["gpu"]) == (
            endpoint,
            "initializing",
            {"id": "A", "count": 1},
        )
        assert worker["env"]["RUNPOD_AI_API_KEY"]
        await anyio.sleep(30)
        (listed,) = (await http.get("/v1/endpoints?includeWorkers=1")).json()
        assert [worker["lastStatusChange"] for worker in listed["workers"]] == ["ready"]


async def test_without_handlers_a_created_endpoint_serves_workers_from_elsewhere_until_it_is_deleted() -> None:
    async with serving(propagation_s=5.0, endpoints={}) as (subject, http):
        endpoint = await created(subject, http)
        assert (await http.get(f"/v2/{endpoint}/health")).status_code == 404
        await anyio.sleep(5)
        job = (await http.post(f"/v2/{endpoint}/run", json={"input": {"n": 1}})).json()["id"]
        taken = await http.get(f"/v2/{endpoint}/job-take/w1?gpu=CPU")
        assert taken.json() == {"id": job, "input": {"n": 1}}
        await http.post(f"/v2/{endpoint}/job-done/w1/{job}?isStream=false", content=b'{"output":2}')
        assert (await http.get(f"/v2/{endpoint}/status/{job}")).json()["output"] == 2
        await http.delete(f"/v1/endpoints/{endpoint}")
        assert (await http.get(f"/v2/{endpoint}/health")).status_code == 404


async def test_without_any_of_its_gpus_no_worker_starts_until_an_update_names_one_that_is_there() -> None:
    """contract, Endpoint: `gpuTypeIds` in priority order."""
    async with serving(propagation_s=0, gpus=("C",)) as (subject, http):
        endpoint = await created(subject, http, gpuTypeIds=["A", "B"])
        job = (await http.post(f"/v2/{endpoint}/run", json={"input": {"n": 0}})).json()["id"]
        await anyio.sleep(60)
        assert (await http.get(f"/v2/{endpoint}/status/{job}")).json()["status"] == "IN_QUEUE"
        await http.patch(f"/v1/endpoints/{endpoint}", json={"gpuTypeIds": ["A", "C"]})
        await anyio.sleep(1)
        assert (await http.get(f"/v2/{endpoint}/status/{job}")).json()["status"] == "COMPLETED"
