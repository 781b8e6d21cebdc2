"""The official client, unmodified, in a process of its own: it reads its URL when it is imported.

It prints what came of each call on the account, as `tests.tools` does.
"""

import os
import sys
import types
from typing import Any

import aiohttp
import anyio
import anyio.to_thread
import pytest

# Before it is loaded: to find out how fast the processor is takes a second, which nobody here wants to know.
sys.modules["cpuinfo"] = types.ModuleType("cpuinfo")
sys.modules["cpuinfo"].get_cpu_info = lambda: {"brand_raw": "a processor"}  # type: ignore[attr-defined]

import runpod  # type: ignore[import-untyped]  # noqa: E402
from runpod import AsyncioEndpoint, AsyncioJob  # noqa: E402

from tests.tools import python_sdk  # noqa: E402


def sync_client() -> None:
    endpoint = runpod.Endpoint("ep")
    job = endpoint.run({"n": 4})
    assert job.output(timeout=60) == {"double": 8}
    assert job.status() == "COMPLETED"
    assert endpoint.run_sync({"n": 5}, timeout=60) == {"double": 10}
    assert set(endpoint.health()) == {"jobs", "workers"}
    assert list(runpod.Endpoint("stream").run({"n": 3}).stream()) == [{"n": 0}, {"n": 1}, {"n": 2}]
    idle = runpod.Endpoint("idle")
    waiting = idle.run({"n": 1})
    assert waiting.status() == "IN_QUEUE"
    assert waiting.cancel()["status"] == "CANCELLED"
    assert waiting.status() == "CANCELLED"
    idle.run({"n": 1})
    assert idle.purge_queue() == {"removed": 1, "status": "completed"}
    with pytest.raises(RuntimeError, match=r"401|[Uu]nauthorized"):
        runpod.Endpoint("ep", api_key="wrong").run({"n": 1})


async def asyncio_client() -> None:
    async with aiohttp.ClientSession() as session:
        job: Any = await AsyncioEndpoint("ep", session).run({"n": 4})
        assert isinstance(job, AsyncioJob)
        assert await job.output(timeout=60) == {"double": 8}
        assert await job.status() == "COMPLETED"
        streamed: Any = await AsyncioEndpoint("stream", session).run({"n": 2})
        assert [chunk async for chunk in streamed.stream()] == [{"n": 0}, {"n": 1}]
        idle = AsyncioEndpoint("idle-too", session)
        waiting = await idle.run({"n": 1})
        assert (await waiting.cancel())["status"] == "CANCELLED"
        assert set(await idle.health()) == {"jobs", "workers"}
        assert "removed" in await idle.purge_queue()


async def both() -> None:
    """At the same time: each of them pauses for a second between questions."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, sync_client)
        tasks.start_soon(asyncio_client)
        tasks.start_soon(anyio.to_thread.run_sync, python_sdk.main, ["account", "registries", "endpoints", "pods"])


if __name__ == "__main__":
    runpod.api_key = os.environ["RUNPOD_API_KEY"]
    anyio.run(both)
