"""The pod interface for tests, driven in-process."""

import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
from starlette.routing import Router

from orchestrator.clock import Clock
from orchestrator.emulator.account.pods import PodSettings, PodWorld
from orchestrator.emulator.account.secrets import SecretStore
from orchestrator.emulator.account.templates import TemplateStore
from orchestrator.emulator.account_api.pod_routes import PodApi
from orchestrator.emulator.account_api.rest_v2 import RestV2
from orchestrator.emulator.contract.callers import QUOTAS, Caller, CallerAccess, Quota
from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.emulator.contract.paging import Pages
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.wire import Wire
from orchestrator.emulator.job_api.routes import RouteTable
from orchestrator.units import SECOND_US

KEY = "the-key-of-the-tests"
T0 = 1_767_225_600 * SECOND_US
GPU = {"name": "trainer", "image": "img:1", "gpu": {"id": "NVIDIA L4", "count": 1}}
CPU = {"name": "web", "image": "img:1", "cpu": {"id": "cpu3c", "vcpuCount": 4}}
AT_ONCE = PodSettings(provisioning_s=0, starting_s=0)


class SetClock:
    """A clock that stands where a test puts it."""

    def __init__(self, at: int = T0) -> None:
        self.at = at

    def now(self) -> int:
        return self.at

    def forward(self, seconds: float) -> None:
        self.at += round(seconds * SECOND_US)


class PodService:
    """A world of pods, and the application that serves it."""

    def __init__(
        self,
        settings: PodSettings | None = None,
        *,
        clock: Clock | None = None,
        callers: Mapping[str, Caller] | None = None,
        quotas: Mapping[str, Quota] = QUOTAS,
    ) -> None:
        self.clock = clock or SetClock()
        rng = random.Random(1)
        settings = msgspec.structs.replace(settings or PodSettings(), callers=callers, quotas=quotas)
        self.dice = FaultDice(Faults(), rng)
        self.world = PodWorld(settings, rng, TemplateStore(SecretStore(rng), rng, release_us=0))
        delivery = AnswerDelivery(Wire(self.dice), self.clock)
        rest = RestV2(CallerAccess(callers, quotas), delivery, rng, Pages())
        self.app: Router = RouteTable(PodApi(rest, self.world).routes())

    @asynccontextmanager
    async def client(self, key: str = KEY, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
        """A plain HTTP client; `headers` with underscores for dashes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app),
            base_url="http://emulator/v2",
            headers={"authorization": f"Bearer {key}", **named},
        ) as http:
            yield http


async def created(http: httpx.AsyncClient, body: Mapping[str, Any] = GPU, **more: Any) -> Any:
    """The record of a new pod."""
    answer = await http.post("/pods", json={**body, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


async def act(http: httpx.AsyncClient, pod_id: str, action: str) -> httpx.Response:
    return await http.post(f"/pods/{pod_id}/action", json={"action": action})
