"""The pods over real sockets, with the whole emulator on the other side."""

import pytest

from orchestrator.account import Account, LogLine
from orchestrator.account.pods.specs import GpuRequest, PodCreate
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client import Service
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.serving import serve

pytestmark = pytest.mark.anyio

SPEC = PodCreate(name="trainer", image="img:1", gpu=GpuRequest(id="NVIDIA L4"), ports=("22/tcp",))


async def test_a_pod_lives_and_ends_on_the_emulators_port() -> None:
    settings = PodSettings(provisioning_s=0, starting_s=0)
    async with serve(pods=settings, keys=("the-right-key",)) as served:
        base_url = served.urls["base_url"]
        async with Service(served.origin, served.key) as service:
            pods = Account(service, base_url=base_url).pods
            pod = await pods.create(SPEC)
            assert pod.status == "RUNNING"
            lines: list[LogLine] = []
            await pods.logs(pod.id, lines.append, tail=1)
            assert (await pods.stop(pod.id, wait=5)).cost == 0
            await pods.logs(pod.id, lines.append, tail=2, follow=True)
            assert [line.line for line in lines] == ["container started", "container started", "container stopped"]
            assert (await pods.start(pod.id, wait=5)).runtime is not None
            assert [window.name for window in pods.windows] == ["minute", "hour", "day"]
            await pods.terminate(pod.id, wait=5)
            assert await pods.list() == ()
        async with Service(served.origin, "a-wrong-key") as service:
            pods = Account(service, base_url=base_url).pods
            with pytest.raises(ProblemError, match="401 Unauthorized: invalid bearer token"):
                await pods.list()


async def test_an_endpoint_may_be_called_pods() -> None:
    async with (
        serve(any_endpoint=True) as served,
        Service(served.origin, served.key) as service,
    ):
        assert (await service.endpoint("pods").health()).raw
        assert await Account(service, base_url=served.origin).pods.list() == ()
