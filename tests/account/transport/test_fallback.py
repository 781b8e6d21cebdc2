"""Endpoints, templates and secrets by each of the service's interfaces: which is spoken, and in what words."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.account import Account, EndpointSpec, LogLine, Template
from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.account.transport.fallback import CannotSayError
from orchestrator.account.transport.graphql_client import GraphQLError
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client import Service
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.emulator.job_api.routes import RouteTable
from orchestrator.emulator.jobs.fleet import WorkerView
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.units import SECOND_US
from tests.account.accounts import ALL, TEMPLATE, URL, Script, met_by
from tests.client.event_streams import Live
from tests.emulator.accounts import KEY, account, carrier
from tests.simulation.clock import EPOCH_AT, VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SAVED = {"imageName": "me/worker:1", "containerDiskInGb": 5, "volumeInGb": 0, "isServerless": True}


def scripted(script: Script, interface: str = "auto") -> Account:
    service = Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(script))
    return Account(service, interface=Interface(interface), **ALL)  # type: ignore[arg-type]


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
    made = subject.endpoints.create({"templateId": template.id}, clock.now())
    endpoints = RunEndpoints(Service(URL, KEY, clock, transport=carrier(subject)), URL)
    assert await endpoints.bounds(made.id) == Bounds(0, 3)
    await endpoints.set_bounds(made.id, Bounds(1, 9))
    assert await endpoints.bounds(made.id) == Bounds(1, 9)


async def test_the_bounds_of_the_public_service_are_asked_for_where_its_v2_is() -> None:
    script = Script(httpx.Response(403))
    service = Service(URL, KEY, VirtualClock(), transport=httpx.MockTransport(script))
    with pytest.raises(ProblemError):
        await RunEndpoints(service, "https://rest.runpod.io").bounds("e")
    assert [str(request.url) for request in script.requests] == ["https://api.runpod.io/v2/serverless/e"]


@pytest.mark.parametrize(
    ("interface", "status", "what"), [("v1", 410, "REST v1"), ("v2", 404, "REST v2"), ("graphql", 404, "GraphQL")]
)
async def test_an_interface_that_was_chosen_and_is_not_there_is_told(interface: str, status: int, what: str) -> None:
    with pytest.raises((ProblemError, GraphQLError)) as caught:
        await scripted(Script(httpx.Response(status)), interface).templates.list()
    assert f"there is no {what} at this address" in str(caught.value)
    assert str(caught.value).endswith("check the URL, or choose another interface=")


# --- what an interface cannot say

SERVERLESS = {**TEMPLATE, "env": (), "ports": None}


@pytest.mark.parametrize(
    ("interface", "call", "why"),
    [
        ("v1", lambda account: account.secrets.list(), "REST v1 knows no secrets; choose another interface=: v2, graphql"),
        ("v1", lambda account: account.endpoints.workers("e"), "use interface=v2"),
        ("graphql", lambda account: account.endpoints.workers("e"), "use interface=v2"),
        ("v1", lambda account: account.endpoints.logs("e", "w", print), "REST v1 cannot say what worker w of e has"),
        ("graphql", lambda account: account.endpoints.logs("e", "w", print), "GraphQL cannot say what worker w of e"),
        ("v2", lambda account: create(account, None), "REST v2 cannot say an endpoint without a choice of GPUs"),
        ("v1", lambda account: create(account, "ADA_24"), "REST v1 cannot say the GPU pool ADA_24"),
        ("graphql", lambda account: create(account, "NVIDIA L4"), "GraphQL cannot say the GPU type NVIDIA L4"),
        ("graphql", lambda account: create(account, "ADA_24", minCudaVersion="12.4"), "GraphQL cannot say minCudaVersion"),
        (
            "v2",
            lambda account: create(account, "ADA_24", 5, scalerType="REQUEST_COUNT"),
            "an idle time-out where REQUEST_COUNT scales a queue; leave the idle time-out out",
        ),
        ("v2", lambda account: save(account, readme="r"), "REST v2 cannot say a readme; another interface= may"),
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
    client = met_by(account(clock, without={"v2": 404}), clock)
    saved = await client.templates.save(Template(**{**SERVERLESS, "readme": "r"}))
    assert saved.readme == "r"
    with pytest.raises(CannotSayError):
        await met_by(account(clock), clock).templates.save(Template(**{**SERVERLESS, "readme": "r"}))


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
    client = met_by(subject, clock, "v2")
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


async def test_what_a_worker_has_printed_is_read_by_rest_v2() -> None:
    """Until the worker is not there any more. Not in the contract."""
    clock = VirtualClock()
    workers = [WorkerView(id="w1", started_at=clock.now(), is_ready=False)]
    subject = account(clock, workers=lambda _: workers)
    async with anyio.create_task_group() as group:
        service = Service(URL, KEY, clock, transport=Live(RouteTable(subject.routes), group))
        client = Account(service, **ALL)  # type: ignore[arg-type]
        template = await client.templates.save(Template(**SERVERLESS))
        spec = EndpointSpec(name="e", template_id=template.id, gpu_type_ids=("ADA_24",))
        endpoint = await client.endpoints.create(spec)
        told: list[LogLine] = []

        async def live() -> None:
            await anyio.sleep(100)
            workers[0] = WorkerView(id="w1", started_at=clock.now(), is_ready=True, ready_at=clock.now())
            await anyio.sleep(100)
            workers.clear()

        group.start_soon(live)
        await client.endpoints.logs(endpoint.id, "w1", told.append, follow=True)
        assert [line.line for line in told] == ["worker created with image me/worker:1", "worker ready"]
        assert clock.now() - EPOCH_AT == pytest.approx(200 * SECOND_US, abs=2 * SECOND_US)
        with pytest.raises(ProblemError, match="404 Not Found"):
            await client.endpoints.logs(endpoint.id, "w1", told.append)
        with pytest.raises(UsageError):
            await client.endpoints.logs(endpoint.id, "../w", told.append)
        await service.aclose()
        group.cancel_scope.cancel()


async def test_a_gpu_type_that_the_catalog_does_not_have_is_refused_with_those_that_it_has() -> None:
    clock = VirtualClock()
    client = met_by(account(clock), clock, "v2")
    with pytest.raises(UsageError, match="the service has no GPU type 'NVIDIA L5'; it has NVIDIA A100"):
        await create(client, "NVIDIA L5")


async def test_who_may_not_see_the_catalog_sees_endpoints_all_the_same() -> None:
    listed = {"endpoints": [{"id": "e", "gpu": {"pools": ["ADA_24", "AMPERE_24"], "excludedTypes": ["NVIDIA L4"]}}]}
    script = Script(httpx.Response(200, json=listed), httpx.Response(403))
    (record,) = await scripted(script, "v2").endpoints.list()
    assert record.gpu_type_ids == ("ADA_24", "AMPERE_24", "-NVIDIA L4")


async def test_text_that_no_encoding_can_carry_is_not_sent() -> None:
    script = Script(httpx.Response(500))
    for interface in ("v2", "v1"):
        with pytest.raises(UsageError, match="no Unicode"):
            await save(scripted(script, interface), readme=None, name="\udcff")
    assert await scripted(script).endpoints.list(limit=0) == ()
    assert script.requests == []


async def test_a_volume_is_not_taken_away_by_v2() -> None:
    clock = VirtualClock()
    client = met_by(account(clock), clock, "v2")
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


ODD: tuple[object, ...] = (
    *(None, 5, "x", {}, [], [1], {"endpoints": 5}, {"endpoints": [5]}, {"data": {"myself": None}}),
    {"endpoints": [{"id": "e", "gpu": {"pools": 5, "excludedTypes": {}}, "workers": [], "scaling": 3, "name": 7}]},
    {"endpoints": [{"id": 5}], "workers": [{"id": 5}], "gpus": [{"id": 5}], "secrets": [{"id": 5}]},
    {"templates": [{"id": "i", "mounts": [], "env": [], "ports": 5, "args": 7}]},
    {"templates": [{"id": 5, "mounts": {"persistent": 5}, "env": {"A": 1}, "ports": [5]}]},
    {"data": {"myself": {"podTemplates": [{"id": 5}], "endpoints": [{"gpuIds": 7}], "secrets": [{}]}}},
    {"data": {"podTemplate": {"id": 5, "env": 7}}},
    [{"id": "x", "dockerStartCmd": 7, "ports": "abc", "env": []}],
)


@pytest.mark.parametrize("answer", ODD, ids=str)
@pytest.mark.parametrize("interface", ["v1", "v2", "graphql"])
async def test_whatever_comes_is_read_or_one_of_our_errors(interface: str, answer: object) -> None:
    account = scripted(Script(httpx.Response(200, json=answer)), interface)
    asked = Template(**{**SERVERLESS, "id": "i", "env": ()})
    for call in (
        *(account.endpoints.list(), account.endpoints.show("e"), account.endpoints.workers("e")),
        *(account.templates.list(), account.templates.show("i"), account.templates.save(asked)),
        *(account.secrets.list(), account.secrets.rotate("s", "v")),
        account.endpoints.update("e", EndpointSpec(workers_max=1), more={"scalerValue": 2, "env": {}}),
    ):
        with suppress(OrchestratorError):
            await call


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
