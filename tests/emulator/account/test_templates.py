"""Templates and what is made from them, over all three interfaces (contract of templates, Deletion rule)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.account.pods import PodSettings
from tests.emulator.emulators import KEY, emulator
from tests.emulator.pod_worlds import WEB, WORKER

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SAVE = "mutation($input: SaveTemplateInput) { saveTemplate(input: $input) { id } }"
POD = {"name": "pod", "gpu": {"id": "NVIDIA L4", "count": 1}}
IN_USE = "is in use by a pod or an endpoint"
A_MOMENT_AGO = "was in use a moment ago"


class Account:
    """One emulated account, by HTTP alone."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def save(self, **wanted: Any) -> str:
        answer = await self.http.post("/graphql", json={"query": SAVE, "variables": {"input": wanted}})
        template_id: str = answer.json()["data"]["saveTemplate"]["id"]
        return template_id

    async def refusal(self, name: str) -> str | None:
        """Why the template is not deleted; None if it is."""
        query = f'mutation {{ deleteTemplate(templateName: "{name}") }}'
        answer = (await self.http.post("/graphql", json={"query": query})).json()
        return str(answer["errors"][0]["message"]) if answer.get("errors") else None

    async def pod(self, template_id: str, **more: Any) -> Any:
        answer = await self.http.post("/v2/pods", json={**POD, "templateId": template_id, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()

    async def act(self, pod_id: str, action: str) -> int:
        return (await self.http.post(f"/v2/pods/{pod_id}/action", json={"action": action})).status_code

    async def endpoint(self, template_id: str) -> str:
        answer = await self.http.post("/v1/endpoints", json={"templateId": template_id})
        endpoint_id: str = answer.json()["id"]
        return endpoint_id


@asynccontextmanager
async def account(**settings: Any) -> AsyncIterator[Account]:
    transport = httpx.ASGITransport(emulator(**settings).app)
    async with httpx.AsyncClient(transport=transport, base_url="http://emulator", headers=KEY) as http:
        yield Account(http)


async def test_a_pod_gets_its_templates_values_and_its_body_wins() -> None:
    async with account() as subject:
        template = await subject.save(**WEB)
        plain = await subject.pod(template)
        changed = await subject.pod(template, image="mine:2", disk=50, ports=[], env={"B": "mine", "C": "c"})
        await subject.save(id=template, **{**WEB, "imageName": "from:later"})
        kept = (await subject.http.get(f"/v2/pods/{plain['id']}")).json()
    fields = ("image", "args", "disk", "ports", "registry", "template")
    expected = ["from:template", "serve", 33, ["80/http", "22/tcp"], "reg", template]
    assert [plain[field] for field in fields] == [kept[field] for field in fields] == expected
    assert plain["env"] == {"A": "{{ RUNPOD_SECRET_a }}", "B": "t"}
    assert [changed[field] for field in fields] == ["mine:2", "serve", 50, [], "reg", template]
    assert changed["env"] == {"A": "{{ RUNPOD_SECRET_a }}", "B": "mine", "C": "c"}


@pytest.mark.parametrize("by_action", [True, False], ids=["terminate", "DELETE"])
async def test_a_template_is_in_use_while_a_pod_of_its_lives_running_or_not_and_two_minutes_longer(
    by_action: bool,
) -> None:
    async with account() as subject:
        pod = (await subject.pod(await subject.save(**WEB)))["id"]
        await anyio.sleep(10)
        for action in ("restart", "stop"):
            assert await subject.act(pod, action) == 200
            await anyio.sleep(600)
            assert IN_USE in str(await subject.refusal("web"))
        if by_action:
            assert await subject.act(pod, "terminate") == 204
        else:
            assert (await subject.http.delete(f"/v2/pods/{pod}")).status_code == 204
        await anyio.sleep(119)
        assert A_MOMENT_AGO in str(await subject.refusal("web"))
        await anyio.sleep(1)
        assert await subject.refusal("web") is None


async def test_a_template_is_in_use_until_the_last_pod_and_endpoint_is_gone() -> None:
    async with account(template_release_s=5) as subject:
        web, worker = await subject.save(**WEB), await subject.save(**WORKER)
        pods = [(await subject.pod(web))["id"] for _ in range(2)]
        endpoints = [await subject.endpoint(worker) for _ in range(2)]
        for pod, endpoint in zip(pods, endpoints, strict=True):
            assert [IN_USE in str(await subject.refusal(name)) for name in ("web", "worker")] == [True, True]
            await subject.act(pod, "terminate")
            await subject.http.delete(f"/v1/endpoints/{endpoint}")
        assert [A_MOMENT_AGO in str(await subject.refusal(name)) for name in ("web", "worker")] == [True, True]
        await anyio.sleep(5)
        assert [await subject.refusal(name) for name in ("web", "worker")] == [None, None]


async def test_a_pod_that_changes_to_another_template_stays_that_of_the_first() -> None:
    """Contract of pods, Pod: `template` is what the pod was created from; of another it only takes the values."""
    async with account(template_release_s=5) as subject:
        first, second = await subject.save(**WEB), await subject.save(**{**WEB, "name": "second", "imageName": "x:2"})
        pod = (await subject.pod(first))["id"]
        changed = (await subject.http.patch(f"/v2/pods/{pod}", json={"templateId": second})).json()
        assert (changed["template"], changed["image"]) == (first, "x:2")
        assert IN_USE in str(await subject.refusal("web"))
        assert await subject.refusal("second") is None


async def test_a_pod_that_is_refused_uses_no_template() -> None:
    async with account(pods=PodSettings(capacity=0)) as subject:
        template = await subject.save(**WEB)
        answer = await subject.http.post("/v2/pods", json={**POD, "templateId": template})
        assert answer.status_code == 400
        assert await subject.refusal("web") is None
