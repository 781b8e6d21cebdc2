"""Endpoints that were created: the whole emulator, in-process and on virtual time."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.handlers import Job
from orchestrator.emulator.server import Emulator, EmulatorSettings
from tests.emulator.accounts import TEMPLATE
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def nap(job: Job) -> object:
    await anyio.sleep(job["input"]["n"])
    return "rested"


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[tuple[Emulator, httpx.AsyncClient]]:
    chosen = EmulatorSettings(endpoints={"*": nap}, **settings)
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
        assert len(subject.world) == 2
        assert (await http.delete(f"/v1/endpoints/{endpoint}")).status_code == 204
        assert len(subject.world) == 0
        delete = {"query": 'mutation { deleteTemplate(templateName: "t") }'}
        assert "a moment ago" in (await http.post("/graphql", json=delete)).text
        await anyio.sleep(120)
        assert (await http.post("/graphql", json=delete)).json() == {"data": {"deleteTemplate": None}}


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
