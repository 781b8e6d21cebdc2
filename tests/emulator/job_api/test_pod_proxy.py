"""The proxy in front of pods' HTTP ports: what answers for a pod that runs, and what for one that does not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.server import Emulator
from tests.emulator.emulators import KEY, emulator, serving
from tests.emulator.job_api.test_load_balancer import SERVER
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WANTED = {"name": "p", "image": "me/server:1", "gpu": {"id": "NVIDIA L4", "count": 1}, "ports": ["8000/http", "22/tcp"]}


def with_pods(**settings: Any) -> Emulator:
    return emulator(clock=VirtualClock(), **{"pod_servers": {8000: SERVER}, **settings})


@asynccontextmanager
async def asking(subject: Emulator) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(subject),
        httpx.AsyncClient(transport=httpx.ASGITransport(subject.app), base_url="http://emulator", headers=KEY) as http,
    ):
        yield http


async def create(http: httpx.AsyncClient) -> str:
    pod: str = (await http.post("/v2/pods", json=WANTED)).json()["id"]
    return pod


async def act(http: httpx.AsyncClient, pod: str, action: str) -> None:
    assert (await http.post(f"/v2/pods/{pod}/action", json={"action": action})).is_success


async def test_a_running_pods_server_is_reached_and_needs_no_key() -> None:
    async with asking(with_pods(pods=PodSettings(booting_s=4))) as http:
        pod = await create(http)
        url = f"/proxy/{pod}-8000/generate"
        assert (await http.post(url)).status_code == 404  # PROVISIONING
        await anyio.sleep(6)
        assert (await http.post(url)).status_code == 502  # RUNNING, and nothing listens yet
        await anyio.sleep(4)
        answer = await http.post(f"{url}?steps=3", content=b"fog", headers={"authorization": ""})
        assert answer.json() == {"path": "/generate", "asked": "steps=3", "body": "fog", "loaded": "loaded"}
        assert (await http.get(f"/proxy/{pod}-8000")).status_code == 404  # the server's own
        assert (await http.get(f"/proxy/{pod}-8000/fail")).status_code == 500
        for other in (f"{pod}-22", f"{pod}-8001", "nobody-8000"):
            assert (await http.post(f"/proxy/{other}/generate")).text == "404 page not found"


@pytest.mark.parametrize("action", ["stop", "terminate"])
async def test_a_pod_that_stops_cuts_off_what_it_was_doing(action: str) -> None:
    async with asking(with_pods()) as http:
        pod = await create(http)
        await anyio.sleep(10)
        cuts = []

        async def nap() -> None:
            try:
                await http.get(f"/proxy/{pod}-8000/nap?s=50")
            except ConnectionCut:
                cuts.append(anyio.current_time())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(nap)
            await anyio.sleep(5)
            began = anyio.current_time()
            await act(http, pod, action)
        assert [at - began for at in cuts] == [0]
        assert (await http.get(f"/proxy/{pod}-8000/ping")).status_code == 404


async def test_what_takes_longer_than_the_proxy_waits_is_a_524() -> None:
    async with asking(with_pods()) as http:
        pod = await create(http)
        await anyio.sleep(10)
        assert (await http.get(f"/proxy/{pod}-8000/nap?s=99")).text == "rested"
        assert (await http.get(f"/proxy/{pod}-8000/nap?s=101")).status_code == 524


async def test_the_faults_of_the_wire_strike_there_too() -> None:
    subject = with_pods()
    async with asking(subject) as http:
        pod = await create(http)
        await anyio.sleep(10)
        subject.dice.faults = Faults(not_json=1.0)
        assert "<html" in (await http.get(f"/proxy/{pod}-8000/ping")).text
        subject.dice.faults = Faults(cut_answer=1.0)
        with pytest.raises(ConnectionCut):
            await http.get(f"/proxy/{pod}-8000/ping")
