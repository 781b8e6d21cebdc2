"""Talks to an emulator on a port, in real time; waiting is done by the service's own long polls."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx

from orchestrator.emulator.jobs.jobs import FINISHED
from orchestrator.emulator.serving import ServedEmulator

PATIENCE_S = 90.0


class ServedClient:
    """The job API of a served emulator."""

    def __init__(self, service: ServedEmulator, http: httpx.AsyncClient) -> None:
        self.service = service
        self.http = http

    async def submit(self, endpoint: str, given: Mapping[str, Any], **more: Any) -> str:
        answer = await self.http.post(f"/{endpoint}/run", json={"input": given, **more})
        assert answer.status_code == 200, answer.text
        job_id: str = answer.json()["id"]
        return job_id

    async def status(self, endpoint: str, job_id: str) -> dict[str, Any]:
        record: dict[str, Any] = (await self.http.get(f"/{endpoint}/status/{job_id}")).json()
        return record

    async def end_of(self, endpoint: str, job_id: str) -> dict[str, Any]:
        """The job's record at its end."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                answer = await self.http.get(f"/{endpoint}/status-sync/{job_id}", params={"wait": 300_000})
                record: dict[str, Any] = answer.json()
                if record["status"] in FINISHED:
                    return record

    async def outcome(self, endpoint: str, given: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return await self.end_of(endpoint, await self.submit(endpoint, given, **more))

    async def until(self, endpoint: str, job_id: str, **fields: Any) -> dict[str, Any]:
        """The job's record once it shows these fields."""
        with anyio.fail_after(PATIENCE_S):
            while True:
                poll = await self.http.get(f"/{endpoint}/status-sync/{job_id}", params={"wait": 1_000})
                record: dict[str, Any] = poll.json()
                if fields.items() <= record.items():
                    return record


@asynccontextmanager
async def talking_to(service: ServedEmulator) -> AsyncIterator[ServedClient]:
    async with httpx.AsyncClient(
        base_url=f"{service.origin}/v2", headers={"authorization": f"Bearer {service.key}"}, timeout=PATIENCE_S
    ) as http:
        yield ServedClient(service, http)
