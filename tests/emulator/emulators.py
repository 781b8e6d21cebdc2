"""An emulator for tests, driven in-process."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx

from orchestrator.clock import Clock
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.job_api.webhook_delivery import Deliver
from orchestrator.emulator.server import Emulator
from orchestrator.emulator.workers.handlers import Handler, HandlerInput
from tests.simulation.clock import VirtualClock

KEY = {"authorization": "Bearer key"}


async def double(job: HandlerInput) -> object:
    return {"double": 2 * job["input"]["n"]}


def emulator(
    handler: Handler = double, *, clock: Clock | None = None, deliver: Deliver | None = None, **settings: Any
) -> Emulator:
    return Emulator(
        EmulatorSettings(endpoints={"ep": handler}, **settings),
        clock=clock or VirtualClock(),
        rng=random.Random(1),
        deliver=deliver,
    )


@asynccontextmanager
async def serving(emulator: Emulator) -> AsyncIterator["Client"]:
    async with anyio.create_task_group() as tasks:
        await tasks.start(emulator.serve)
        async with client_of(emulator) as client:
            yield client
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def client_of(emulator: Emulator) -> AsyncIterator["Client"]:
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(emulator.app), base_url="http://emulator/v2/ep", headers=KEY
    ) as http:
        yield Client(http)


class Client:
    """The few calls that tests make."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def run(self, n: int = 1, **more: Any) -> str:
        answer = await self.http.post("/run", json={"input": {"n": n}, **more})
        assert answer.status_code == 200, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    async def status(self, job_id: str) -> Mapping[str, Any]:
        record: dict[str, Any] = (await self.http.get(f"/status/{job_id}")).json()
        return record

    async def post(self, path: str) -> tuple[int, Mapping[str, Any]]:
        answer = await self.http.post(path)
        return answer.status_code, answer.json()
