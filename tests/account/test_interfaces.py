"""Endpoints, templates and secrets by each of the service's interfaces: the same is done, whichever is spoken."""

import random
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from orchestrator.account import Account, EndpointSpec, EnvironmentVariable, GpuRequest, PodCreate, PodModify, Template
from orchestrator.account.bounds import EndpointBounds
from orchestrator.account.graphql import GraphQLError
from orchestrator.account.interfaces import CannotSayError
from orchestrator.account.rest import ProblemError
from orchestrator.client import Service
from orchestrator.client.refusals import AnswerError
from orchestrator.core.interfaces import Interface
from orchestrator.core.lending import Bounds
from orchestrator.emulator.account import Account as Emulated
from orchestrator.emulator.endpoints import EndpointInput
from orchestrator.emulator.paging import Pages
from orchestrator.emulator.server import Emulator, EmulatorSettings
from orchestrator.errors import UsageError
from tests.account.accounts import Script
from tests.emulator.accounts import GRAPHQL_URL, KEY, account, carrier
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

URL = "http://emulator"
ALL = {"base_url": URL, "rest_url": URL, "graphql_url": GRAPHQL_URL}
TEMPLATE: Mapping[str, Any] = {
    "name": "t",
    "image_name": "me/worker:1",
    "container_disk_in_gb": 7,
    "volume_in_gb": 0,
    "is_serverless": True,
    "docker_args": "python -u h.py",
    "env": (EnvironmentVariable(key="A", value="1"), EnvironmentVariable(key="B", value="{{ RUNPOD_SECRET_hf }}")),
    "ports": "8888/http,22/tcp",
}


SAVED = {"imageName": "me/worker:1", "containerDiskInGb": 5, "volumeInGb": 0, "isServerless": True}


def client_of(subject: Emulated, clock: VirtualClock, interface: str = "auto", **urls: str) -> Account:
    """A client that has met no interface yet, as each command has."""
    service = Service(URL, KEY, clock, transport=carrier(subject))
    return Account(service, interface=Interface(interface), **{**ALL, **urls})  # type: ignore[arg-type]


def scripted(script: Script, interface: str = "auto") -> Account:
    service = Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(script))
    return Account(service, interface=Interface(interface), **ALL)  # type: ignore[arg-type]


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


async def test_one_script_has_the_same_result_by_each_interface_and_with_the_older_ones_gone() -> None:
    """Creating, changing, listing by pages of two and deleting; REST v1 names GPU types, GraphQL pools, v2 both."""
    told: dict[tuple[str, str], list[object]] = {}
    for noun, interface, gpu in BY:
        clock = VirtualClock()
        client = client_of(account(clock, pages=Pages(2)), clock, interface)
        found = await STORIES[noun](client, gpu)
        assert told.setdefault((noun, gpu), found) == found, (noun, interface)
    for without, unsayable in WITHOUT:
        for (noun, gpu), expected in told.items():
            if gpu not in unsayable:
                clock = VirtualClock()
                client = client_of(account(clock, pages=Pages(2), without=without), clock)
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


# --- which interface is spoken


def paths(script: Script) -> list[str]:
    return [f"{request.method} {request.url.path}" for request in script.requests]


LISTED = {"endpoints": [], "pagination": {"hasNextPage": False}}


async def test_what_the_service_has_not_is_asked_for_once() -> None:
    gone = httpx.Response(404)
    script = Script(gone, gone, httpx.Response(200, json=[]), httpx.Response(200, json=[]))
    endpoints = scripted(script).endpoints
    assert (await endpoints.list(), await endpoints.list()) == ((), ())
    assert paths(script) == ["GET /v2/serverless", "GET /v2/serverless", "GET /v1/endpoints", "GET /v1/endpoints"]


async def test_a_thing_that_is_not_there_is_no_interface_that_is_not_there() -> None:
    script = Script(httpx.Response(404), httpx.Response(200, json=LISTED))
    with pytest.raises(ProblemError, match="404 Not Found"):
        await scripted(script).endpoints.show("x")
    assert paths(script) == ["GET /v2/serverless/x", "GET /v2/serverless"]
    script = Script(httpx.Response(200, json=LISTED), httpx.Response(410))
    endpoints = scripted(script).endpoints
    await endpoints.list()
    with pytest.raises(ProblemError, match="410 Gone"):
        await endpoints.delete("x")
    assert len(script.requests) == 2, "an interface that has answered is there"


@pytest.mark.parametrize("status", [401, 403, 429, 500])
async def test_trouble_with_the_newer_interface_does_not_lead_to_the_older_one(status: int) -> None:
    script = Script(httpx.Response(status, headers={"retry-after": "3600"}))
    with pytest.raises(ProblemError):
        await scripted(script).secrets.delete("x")
    assert {request.url.path for request in script.requests} == {"/v2/account/secrets/x"}


async def test_a_change_that_met_a_missing_path_is_made_by_the_older_interface() -> None:
    script = Script(httpx.Response(404), httpx.Response(404), httpx.Response(200, json={"id": "x"}))
    spec = EndpointSpec(name="e", template_id="t", gpu_type_ids=("NVIDIA L4",))
    assert (await scripted(script).endpoints.create(spec)).id == "x"
    assert paths(script) == ["GET /v2/catalog/gpus", "GET /v2/serverless", "POST /v1/endpoints"]


@pytest.mark.parametrize(
    ("urls", "asked"),
    [
        ({}, "https://api.runpod.io/v2/templates"),
        ({"base_url": "http://own"}, "http://own/v2/templates"),
        ({"graphql_url": "http://own/graphql"}, "http://own/graphql"),
        ({"rest_url": "http://own"}, "http://own/v1/templates"),
        ({"rest_url": "http://own", "graphql_url": "http://own/graphql"}, "http://own/graphql"),
    ],
)
async def test_where_one_address_was_set_nothing_goes_to_the_public_service(
    urls: Mapping[str, str], asked: str
) -> None:
    script = Script(httpx.Response(403))
    client = Account(Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(script)), **urls)  # type: ignore[arg-type]
    with pytest.raises((ProblemError, GraphQLError)):
        await client.templates.list()
    assert {str(request.url.copy_with(query=None)) for request in script.requests} == {asked}


async def test_who_acts_for_a_team_speaks_the_interface_that_knows_teams() -> None:
    script = Script(httpx.Response(404))
    service = Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(script))
    with pytest.raises(ProblemError):
        await Account(service, team_id="team1").templates.list()
    assert {request.headers["x-team-id"] for request in script.requests} == {"team1"}
    assert {request.url.path for request in script.requests} == {"/v2/templates"}


@pytest.mark.parametrize("without", [{}, {"v1": 410}, {"v2": 404}])
async def test_the_engine_raises_the_bounds_of_workers_by_whichever_rest_there_is(without: Mapping[str, int]) -> None:
    clock = VirtualClock()
    subject = account(clock, without=without)
    template = subject.templates.save({**SAVED, "name": "t"})
    made = subject.endpoints.create(EndpointInput(template_id=template.id), clock.now())
    bounds = EndpointBounds(Service(URL, KEY, clock, transport=carrier(subject)), URL)
    assert await bounds.show(made.id) == Bounds(0, 3)
    await bounds.set(made.id, Bounds(1, 9))
    assert await bounds.show(made.id) == Bounds(1, 9)


async def test_the_bounds_of_the_public_service_are_asked_for_where_its_v2_is() -> None:
    script = Script(httpx.Response(403))
    service = Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(script))
    with pytest.raises(ProblemError):
        await EndpointBounds(service, "https://rest.runpod.io").show("e")
    assert [str(request.url) for request in script.requests] == ["https://api.runpod.io/v2/serverless/e"]


@pytest.mark.parametrize(
    ("interface", "status", "what"), [("v1", 410, "REST v1"), ("v2", 404, "REST v2"), ("graphql", 404, "GraphQL")]
)
async def test_an_interface_that_was_chosen_and_is_not_there_is_told(interface: str, status: int, what: str) -> None:
    with pytest.raises((ProblemError, GraphQLError)) as caught:
        await scripted(Script(httpx.Response(status)), interface).templates.list()
    assert f"there is no {what} at this address" in str(caught.value)
    assert str(caught.value).endswith("check the URL, or choose another --interface")


# --- what an interface cannot say

SERVERLESS = {**TEMPLATE, "env": (), "ports": None}


@pytest.mark.parametrize(
    ("interface", "call", "why"),
    [
        ("v1", lambda account: account.secrets.list(), "REST v1 knows no secrets; choose another --interface: v2, graphql"),
        ("v1", lambda account: account.endpoints.workers("e"), "use --interface v2"),
        ("graphql", lambda account: account.endpoints.workers("e"), "use --interface v2"),
        ("v2", lambda account: create(account, None), "REST v2 cannot say an endpoint without a choice of GPUs"),
        ("v1", lambda account: create(account, "ADA_24"), "REST v1 cannot say the GPU pool ADA_24"),
        ("graphql", lambda account: create(account, "NVIDIA L4"), "GraphQL cannot say the GPU type NVIDIA L4"),
        ("graphql", lambda account: create(account, "ADA_24", minCudaVersion="12.4"), "GraphQL cannot say minCudaVersion"),
        (
            "v2",
            lambda account: create(account, "ADA_24", 5, scalerType="REQUEST_COUNT"),
            "an idle time-out where REQUEST_COUNT scales a queue; leave the idle time-out out",
        ),
        ("v2", lambda account: save(account, readme="r"), "REST v2 cannot say a readme; another --interface may"),
        ("v2", lambda account: save(account, is_serverless=False, volume_in_gb=5), "the smallest has 10 GB"),
        ("v2", lambda account: save(account, volume_mount_path="/w"), "where a volume is mounted that has 0 GB"),
        ("v1", lambda account: save(account, docker_args="a 'b"), "start arguments whose quotes do not close"),
    ],
)  # fmt: skip
async def test_what_an_interface_cannot_say_is_refused_before_it_is_sent(interface: str, call: Any, why: str) -> None:
    script = Script(httpx.Response(200, json={}))
    with pytest.raises(UsageError) as caught:
        await call(scripted(script, interface))
    assert why in str(caught.value)
    assert script.requests == []


async def create(account: Account, gpu: str | None = None, idle: int | None = None, **more: object) -> None:
    gpus = None if gpu is None else (gpu,)
    await account.endpoints.create(
        EndpointSpec(name="e", template_id="t", gpu_type_ids=gpus, idle_timeout=idle), more=more
    )


async def save(account: Account, **change: Any) -> None:
    await account.templates.save(Template(**{**SERVERLESS, **change}))


async def test_what_only_an_older_interface_can_say_is_said_by_it_where_there_is_no_newer_one() -> None:
    clock = VirtualClock()
    client = client_of(account(clock, without={"v2": 404}), clock)
    saved = await client.templates.save(Template(**{**SERVERLESS, "readme": "r"}))
    assert saved.readme == "r"
    with pytest.raises(CannotSayError):
        await client_of(account(clock), clock).templates.save(Template(**{**SERVERLESS, "readme": "r"}))


# --- the words of REST v2


async def test_the_fields_of_v1_are_put_into_the_words_of_v2() -> None:
    script = Script(httpx.Response(201, json={"id": "x"}))
    more = {
        "flashboot": True,
        "dataCenterIds": ["EU"],
        "networkVolumeId": "n",
        "scalerType": "REQUEST_COUNT",
        "scalerValue": 2,
        "allowedCudaVersions": ["12.8"],
        "env": {"A": "1"},
    }
    spec = EndpointSpec(name="e", template_id="t", gpu_type_ids=("ADA_24",), workers_max=2, execution_timeout_ms=1000)
    await scripted(script, "v2").endpoints.create(spec, more=more)
    assert httpx.Response(200, content=script.requests[0].content).json() == {
        "type": "QUEUE",
        "name": "e",
        "templateId": "t",
        "gpu": {"pools": ["ADA_24"], "allowedCudaVersions": ["12.8"]},
        "workers": {"max": 2},
        "timeout": 1000,
        "flashboot": "FLASHBOOT",
        "dataCenterIds": ["EU"],
        "networkVolumes": ["n"],
        "scaling": {"type": "REQUEST_COUNT", "requestCount": 2},
        "env": {"A": "1"},
    }


async def test_by_v2_a_nameless_endpoint_is_called_like_its_template_and_may_run_on_cpus() -> None:
    clock = VirtualClock()
    subject = account(clock)
    client = client_of(subject, clock, "v2")
    template = await client.templates.save(Template(**SERVERLESS))
    spec = EndpointSpec(template_id=template.id)
    made = await client.endpoints.create(spec, more={"computeType": "CPU", "cpuFlavorIds": ["cpu3c"], "vcpuCount": 4})
    assert (made.name, made.raw["cpu"][0]["vcpuCount"]) == ("t", 4)
    assert (made.idle_timeout, made.execution_timeout_ms) == (10, 300_000), "the newer defaults"
    lost: list[str] = []
    changed = await client.endpoints.update(
        made.id, EndpointSpec(), more={"scalerValue": 9, "env": {}}, losing=lost.append
    )
    assert (changed.raw["scaling"], lost) == ({"type": "QUEUE_DELAY", "queueDelay": 9}, [])
    other = EndpointSpec(template_id=template.id)
    await client.endpoints.update(made.id, other, losing=lost.append)
    await client.endpoints.update(made.id, EndpointSpec(), more={"env": {"A": "1"}}, losing=lost.append)
    await client.endpoints.update(made.id, EndpointSpec(), more={"env": {"B": "1"}}, losing=lost.append)
    await client.endpoints.update(made.id, EndpointSpec(name="f"), losing=lost.append)
    assert lost.pop() == f"endpoint {made.id}: its template is renamed, too, to f-template"
    assert lost == [
        f"endpoint {made.id}: its image, command, disk, variables and ports become those of the template",
        f"endpoint {made.id}: the variable A will be gone",
    ]
    assert await client.endpoints.workers(made.id) == ()


async def test_a_gpu_type_that_the_catalog_does_not_have_is_refused_with_those_that_it_has() -> None:
    clock = VirtualClock()
    client = client_of(account(clock), clock, "v2")
    with pytest.raises(UsageError, match="the service has no GPU type 'NVIDIA L5'; it has NVIDIA A100"):
        await create(client, "NVIDIA L5")


async def test_a_volume_is_not_taken_away_by_v2() -> None:
    clock = VirtualClock()
    client = client_of(account(clock), clock, "v2")
    saved = await client.templates.save(Template(**{**SERVERLESS, "is_serverless": False, "volume_in_gb": 20}))
    assert (saved.volume_in_gb, saved.volume_mount_path) == (20, "/workspace")
    with pytest.raises(CannotSayError, match="that the volume of 20 GB is to go"):
        await client.templates.save(Template(**{**SERVERLESS, "id": saved.id}))


# --- what is saved as a whole by GraphQL


async def test_what_graphql_does_not_show_of_what_it_saves_is_said_first() -> None:
    """Reads, merges, saves. A field that the service's schema has not is left out, and named."""
    present = {"id": "i", "name": "t", "imageName": "a:1", "containerDiskInGb": 5, "volumeInGb": 0, "startSsh": False}
    script = Script(
        httpx.Response(400, json={"errors": [{"message": 'Cannot query field "config" on type "PodTemplate".'}]}),
        httpx.Response(200, json={"data": {"podTemplate": {**present, "containerRegistryAuthId": "c", "env": []}}}),
        httpx.Response(200, json={"data": {"saveTemplate": present}}),
    )
    said: list[str] = []
    asked = Template(id="i", name="t", image_name="a:2", container_disk_in_gb=5, volume_in_gb=0)
    await scripted(script, "graphql").templates.save(asked, losing=said.append)
    assert said == ["template t: the service does not show config; a save may reset that"]
    assert 'imageName: "a:2"' in script.query
    for kept in ('containerRegistryAuthId: "c"', "startSsh: false"):
        assert kept in script.query


async def test_an_endpoint_that_graphql_saves_keeps_what_nobody_spoke_of() -> None:
    shown = {
        "id": "e",
        "name": "e",
        "templateId": "t",
        "gpuIds": "ADA_24,-NVIDIA L4",
        "workersMin": 0,
        "workersMax": 3,
        "idleTimeout": 5,
        "flashBootType": "FLASHBOOT",
        "locations": "EU",
        "networkVolumeId": None,
    }
    script = Script(
        httpx.Response(
            400,
            json={"errors": [{"message": "Cannot query field 'executionTimeoutMs' on type 'Endpoint'."}]},
        ),
        httpx.Response(200, json={"data": {"myself": {"endpoints": [shown]}}}),
        httpx.Response(200, json={"data": {"saveEndpoint": shown}}),
    )
    said: list[str] = []
    endpoints = scripted(script, "graphql").endpoints
    await endpoints.update("e", EndpointSpec(workers_max=5), losing=said.append)
    assert said == ["endpoint e: the service does not show executionTimeoutMs; a save may reset that"]
    for kept in ('gpuIds: "ADA_24,-NVIDIA L4"', "flashBootType: FLASHBOOT", 'locations: "EU"', "workersMax: 5"):
        assert kept in script.query
    script = Script(httpx.Response(200, json={"data": {"myself": {"endpoints": []}}}))
    with pytest.raises(GraphQLError, match="endpoint not found"):
        await scripted(script, "graphql").endpoints.show("e")


# --- pages


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"endpoints": [], "pagination": {"hasNextPage": "yes"}}, "cannot be read"),
        ({"endpoints": [], "pagination": {"hasNextPage": True, "nextCursor": None}}, "a next page, and not where"),
        (
            {"endpoints": [], "pagination": {"hasNextPage": True, "nextCursor": "c"}},
            "a cursor that it has given before",
        ),
        ({"error": "x"}, "there are no endpoints in it"),
    ],
)
async def test_pages_that_cannot_be_followed_are_an_error(answer: object, why: str) -> None:
    with pytest.raises(AnswerError, match=why):
        await scripted(Script(httpx.Response(200, json=answer)), "v2").endpoints.list()


async def test_an_answer_that_is_no_secret_template_or_worker_is_an_error() -> None:
    script = Script(httpx.Response(200, json={"templates": [{"id": "i", "env": [1]}], "workers": [{}]}))
    account = scripted(script, "v2")
    with pytest.raises(AnswerError, match="a template that cannot be read"):
        await account.templates.list()
    with pytest.raises(AnswerError, match="a worker that has no id"):
        await account.endpoints.workers("e")


async def test_a_secrets_value_has_bounds() -> None:
    account = scripted(Script(httpx.Response(500)), "v2")
    for call in (
        account.secrets.create("s", "v" * (16 * 1024 * 1024)),
        account.secrets.create("s", "v", description="d" * 65_536),
        account.secrets.create("runpod_s", "v"),
        account.secrets.create("1s", "v"),
        account.secrets.rotate("s"),
        account.secrets.rotate("s", ""),
    ):
        with pytest.raises(UsageError):
            await call


async def test_a_value_that_v2_quotes_is_hidden() -> None:
    script = Script(httpx.Response(422, json={"title": "t", "status": 422, "detail": "no hunter2", "errors": []}))
    with pytest.raises(ProblemError) as caught:
        await scripted(script, "v2").secrets.rotate("s", "hunter2")
    assert "hunter2" not in str(caught.value) + repr(vars(caught.value))
