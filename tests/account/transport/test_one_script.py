"""One script by each of the service's interfaces: what a user gets to see is the same, whichever is spoken."""

import random
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from orchestrator.account import Account, EndpointSpec, EnvironmentVariable, GpuRequest, PodCreate, PodModify, Template
from orchestrator.account.transport.graphql_client import GraphQLError
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client import Service
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from tests.account.accounts import ALL, TEMPLATE, URL, met_by
from tests.emulator.accounts import KEY, account
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def endpoints_story(client: Account, gpu: str) -> list[object]:
    """Three endpoints, listed, changed and deleted: what a user gets to see."""
    template = await client.templates.save(Template(**TEMPLATE))
    spec = EndpointSpec(
        template_id=template.id,
        gpu_type_ids=(gpu,),
        workers_min=0,
        workers_max=2,
        idle_timeout=9,
        execution_timeout_ms=60_000,
    )
    made = [
        await client.endpoints.create(EndpointSpec(**{**_said(spec), "name": f"e{n}"}), more={"gpuCount": 2})
        for n in range(5)
    ]
    told: list[object] = [_plain(record) for record in made]
    told.append(sorted(_plain(record)["name"] for record in await client.endpoints.list()))
    told.append(len(await client.endpoints.list(limit=3)))
    changed = await client.endpoints.update(made[0].id, EndpointSpec(workers_max=4, idle_timeout=30))
    told += [_plain(changed), _plain(await client.endpoints.show(made[0].id))]
    for record in made:
        await client.endpoints.delete(record.id)
    told.append(len(await client.endpoints.list()))
    await client.templates.delete("t")
    return told


def _said(spec: EndpointSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in spec.__struct_fields__}


def _plain(record: Any) -> dict[str, Any]:
    """A record without what depends on chance, and without the template that v2 does not tell."""
    return {
        name: getattr(record, name)
        for name in record.__struct_fields__
        if name not in ("id", "raw", "created_at", "template_id")
    }


async def templates_story(client: Account, _: str) -> list[object]:
    told: list[object] = []
    lost: list[str] = []
    made = [
        await client.templates.save(Template(**{**TEMPLATE, "name": f"t{n}", "container_registry_auth_id": "c"}))
        for n in range(5)
    ]
    told += map(_plain, made)
    told.append(sorted(each.name for each in await client.templates.list()))
    told.append(len(await client.templates.list(limit=3)))
    env = (EnvironmentVariable(key="A", value="2"),)
    asked = Template(
        id=made[4].id, name="t4", image_name="me/worker:2", container_disk_in_gb=8, volume_in_gb=0, env=env
    )
    told.append(_plain(await client.templates.save(asked, losing=lost.append)))
    shown = await client.templates.show(str(made[4].id))
    assert shown is not None
    assert shown.container_registry_auth_id == "c", "what nobody spoke of stays"
    told += [_plain(shown), await client.templates.show("nowhere"), lost]
    for n in range(5):
        await client.templates.delete(f"t{n}")
    told.append(await client.templates.list())
    with pytest.raises((ProblemError, GraphQLError), match="template not found"):
        await client.templates.delete("t0", wait_s=0)
    return told


async def secrets_story(client: Account, _: str) -> list[object]:
    told: list[object] = []
    made = [await client.secrets.create(f"s{n}", "hunter2", description="d") for n in range(5)]
    told += [(each.name, each.description) for each in made]
    told.append(sorted(each.name for each in await client.secrets.list()))
    told.append(len(await client.secrets.list(limit=3)))
    for value, description in (("hunter3", None), (None, "e"), ("hunter4", "")):
        secret = await client.secrets.rotate(made[0].id, value, description=description)
        told.append((secret.name, secret.description))
    for each in made[1:]:
        await client.secrets.delete(each.id)
    told.append([(each.name, each.description) for each in await client.secrets.list()])
    await client.secrets.delete(made[0].id)
    told.append(await client.secrets.list())
    return told


STORIES = {"endpoints": endpoints_story, "templates": templates_story, "secrets": secrets_story}
BY: tuple[tuple[str, str, str], ...] = (
    *(("endpoints", "v2", "NVIDIA L4"), ("endpoints", "v1", "NVIDIA L4")),
    *(("endpoints", "v2", "AMPERE_24"), ("endpoints", "graphql", "AMPERE_24")),
    *(("templates", each, "") for each in ("v2", "v1", "graphql")),
    *(("secrets", each, "") for each in ("v2", "graphql")),
)


WITHOUT: tuple[tuple[Mapping[str, int], tuple[str, ...]], ...] = (
    ({}, ()),
    ({"v1": 404}, ()),
    ({"v1": 410}, ()),
    ({"graphql": 404}, ()),
    ({"v2": 410}, ("AMPERE_24",)),
    ({"v2": 404, "v1": 410}, ("NVIDIA L4",)),
)
"""What the service is without, and the GPUs for which what is left has no words."""


@pytest.mark.slow
async def test_one_script_has_the_same_result_by_each_interface_and_with_the_older_ones_gone() -> None:
    """Creating, changing, listing by pages of two and deleting; REST v1 names GPU types, GraphQL pools, v2 both."""
    told: dict[tuple[str, str], list[object]] = {}
    for noun, interface, gpu in BY:
        clock = VirtualClock()
        client = met_by(account(clock, page_size=2), clock, interface)
        found = await STORIES[noun](client, gpu)
        assert told.setdefault((noun, gpu), found) == found, (noun, interface)
    for without, unsayable in WITHOUT:
        for (noun, gpu), expected in told.items():
            if gpu not in unsayable:
                clock = VirtualClock()
                client = met_by(account(clock, page_size=2, without=without), clock)
                assert await STORIES[noun](client, gpu) == expected, (noun, gpu, without)


async def test_pods_and_all_the_rest_share_the_pages_and_the_limits_of_one_emulator() -> None:
    """The pods' part of the same script: they are in REST v2 only."""
    clock = VirtualClock()
    settings = EmulatorSettings(page_size=2, without={"v1": 410}, keys=(KEY,))
    emulator = Emulator(settings, clock=clock, rng=random.Random(1))
    service = Service(URL, KEY, clock, transport=httpx.ASGITransport(emulator.app))
    client = Account(service, **ALL)  # type: ignore[arg-type]
    made = [
        await client.pods.create(PodCreate(name=f"p{n}", image="a:1", gpu=GpuRequest(id="NVIDIA L4"))) for n in range(5)
    ]
    assert {pod.id for pod in await client.pods.list()} == {pod.id for pod in made}
    assert len(await client.pods.list(limit=3)) == 3
    assert (await client.pods.modify(made[0].id, PodModify(name="q"))).name == "q"
    for pod in made:
        await client.pods.delete(pod.id)
    assert await client.pods.list() == ()
    await client.secrets.create("s", "v")
    first = {window.name: window.remaining for window in client.pods.windows}
    await client.secrets.list()
    assert {window.name: window.remaining for window in client.pods.windows} == {
        name: (left or 0) - 1 for name, left in first.items()
    }
