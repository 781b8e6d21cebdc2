"""`--strict`: what the service was seen to refuse is refused also where the contract is silent (as observed)."""

from typing import Any

import httpx
import msgspec
import pytest

from orchestrator.account import Account, EndpointSpec, EnvironmentVariable, GpuRequest, PodCreate, Template
from orchestrator.client import InProcess, Service
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.server import Emulator
from tests.emulator.emulators import emulator
from tests.emulator.pod_service import GPU
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CUDA = {"id": "NVIDIA L4", "count": 1, "allowedCudaVersions": ["12.8"], "minCudaVersion": "12.4"}
SAVE = (
    'mutation { saveTemplate(input: {name: "t", imageName: "me/t:1", containerDiskInGb: 1, volumeInGb: 0%s}) { id } }'
)


def subject(*, strict: bool) -> Emulator:
    return emulator(
        strict=strict, pods=PodSettings(assumes_gpu_count=True, provisioning_s=0, starting_s=0), keys=("k",)
    )


@pytest.mark.parametrize(
    ("body", "key", "plain", "strict"),
    [
        ({**GPU, "gpu": {"id": "NVIDIA L4"}}, "k", 201, 400),
        ({**GPU, "gpu": CUDA}, "k", 201, 400),
        ({**GPU, "gpu": {**CUDA, "minCudaVersion": ""}}, "k", 201, 201),
        ({**GPU, "env": {"A": "x" * 102_400}}, "k", 201, 413),
        ({**GPU, "env": {"A": "x" * 102_400}}, "wrong", 401, 413),
        ({**GPU, "env": {"A": "x" * 1_000}}, "wrong", 401, 401),
    ],
)
async def test_a_new_pod_is_refused_as_by_the_service(body: Any, key: str, plain: int, strict: int) -> None:
    seen = []
    for each in (False, True):
        transport = httpx.ASGITransport(subject(strict=each).app)
        async with httpx.AsyncClient(transport=transport, base_url="http://emulator") as http:
            answer = await http.post("/v2/pods", json=body, headers={"authorization": f"Bearer {key}"})
        seen.append(answer.status_code)
        assert answer.is_success or answer.json()["status"] == answer.status_code
    assert seen == [plain, strict]


async def test_a_template_has_to_have_its_variables_and_arguments() -> None:
    async def saved(more: str, *, strict: bool) -> object:
        transport = httpx.ASGITransport(subject(strict=strict).app)
        async with httpx.AsyncClient(transport=transport, base_url="http://emulator") as http:
            answer = await http.post("/graphql?api_key=k", json={"query": SAVE % more})
        return answer.json().get("errors", [{}])[0].get("message")

    assert await saved("", strict=False) is None
    assert await saved("", strict=True) == "env is required"
    assert await saved(", env: []", strict=True) == "dockerArgs is required"
    assert await saved(', env: [], dockerArgs: ""', strict=True) is None


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("interface", Interface)
async def test_our_client_manages_an_account_at_either(strict: bool, interface: Interface) -> None:
    clock = VirtualClock()
    emulated = subject(strict=strict)
    transport = InProcess(emulated.app, cut=ConnectionCut)
    service = Service("http://emulator", "k", clock, transport=transport)
    url = "http://emulator"
    mine = Account(service, base_url=url, rest_url=url, graphql_url=f"{url}/graphql", interface=interface)
    wanted = Template(
        name="worker",
        image_name="me/worker:1",
        container_disk_in_gb=5,
        volume_in_gb=0,
        is_serverless=True,
        env=(EnvironmentVariable(key="A", value="1"),),
    )
    template = await mine.templates.save(wanted)
    assert [each.name for each in await mine.templates.list()] == ["worker"]
    spec = EndpointSpec(name="e", template_id=template.id, gpu_type_ids=("ADA_24",), workers_max=1)
    if interface is Interface.V1:  # which speaks of types of GPUs
        spec = msgspec.structs.replace(spec, gpu_type_ids=("NVIDIA L4",))
    endpoint = await mine.endpoints.create(spec)
    assert [each.id for each in await mine.endpoints.list()] == [endpoint.id]
    await mine.endpoints.update(endpoint.id, EndpointSpec(workers_max=2))
    await mine.endpoints.delete(endpoint.id)
    if interface is not Interface.V1:  # which has no secrets
        await mine.secrets.delete(str((await mine.secrets.create("token", "value")).id))
    pod = await mine.pods.create(PodCreate(name="p", image="me/t:1", gpu=GpuRequest(id="NVIDIA L4")), wait=30)
    assert (pod.status, [each.id for each in await mine.pods.list()]) == ("RUNNING", [pod.id])
    await mine.pods.stop(pod.id)
    await mine.pods.terminate(pod.id)
