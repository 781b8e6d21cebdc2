"""Endpoints, templates and secrets by REST v2, and templates by v1: raw requests, by what was observed."""

from collections.abc import Mapping
from typing import Any

import pytest

from orchestrator.emulator.contract.answers import ProblemRefusal
from orchestrator.emulator.contract.paging import Pages
from orchestrator.units import SECOND_US
from tests.emulator.accounts import KEY, Bare, Stopped, account

pytestmark = pytest.mark.anyio

TEMPLATE = {"name": "t", "image": "me/worker:1", "serverless": True}
ENDPOINT = {
    "name": "e",
    "type": "QUEUE",
    "image": "me/worker:1",
    "gpu": {"pools": ["AMPERE_24"]},
    "scaling": {"type": "QUEUE_DELAY", "queueDelay": 4},
}
SECRET = {"name": "hf", "value": "v"}


class V2:
    """Requests to `/v2`, and their answers."""

    def __init__(self, clock: Stopped | None = None, **settings: Any) -> None:
        self.account = account(clock, **settings)
        self.bare = Bare(self.account)

    async def __call__(self, method: str, path: str, json: Any = None, key: str = KEY) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {key}"}
        answer = await self.bare.http.request(method, f"/v2{path}", json=json, headers=headers)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["status"] == answer.status_code
        return answer.status_code, answer.json() if answer.content else None

    async def made(self, path: str, body: Mapping[str, Any]) -> Any:
        status, record = await self("POST", path, body)
        assert status == 201, record
        return record


async def test_an_endpoint_is_created_with_the_newer_defaults_shown_changed_and_deleted() -> None:
    v2 = V2()
    made = await v2.made("/serverless", {**ENDPOINT, "gpu": {"pools": ["AMPERE_24"], "excludedTypes": ["NVIDIA L4"]}})
    assert (made["workers"], made["timeout"]) == ({"min": 0, "max": 3, "idleTimeout": 10}, 300_000)
    assert (made["flashboot"], made["scaling"]) == ("OFF", {"type": "QUEUE_DELAY", "queueDelay": 4})
    assert made["gpu"] == {
        "pools": ["AMPERE_24"],
        "excludedTypes": ["NVIDIA L4"],
        "count": 1,
        "allowedCudaVersions": [],
        "minCudaVersion": None,
    }
    assert "templateId" not in made
    path = f"/serverless/{made['id']}"
    assert await v2("GET", path) == (200, made)
    change = {"workers": {"max": 5}, "gpu": {"pools": ["ADA_24"]}, "env": {"A": "1"}, "flashboot": "PRIORITY_FLASHBOOT"}
    _, changed = await v2("PATCH", path, change)
    assert (changed["workers"], changed["env"]) == ({"min": 0, "max": 5, "idleTimeout": 10}, {"A": "1"})
    assert (changed["gpu"]["pools"], "excludedTypes" in changed["gpu"]) == (["ADA_24"], False)
    assert changed["flashboot"] == "PRIORITY_FLASHBOOT"
    (shown,) = (await v2.bare.rest("GET", "/endpoints"))[1]
    assert (shown["workersMax"], shown["gpuTypeIds"], shown["flashboot"], shown["env"]) == (
        5,
        ["ADA_24"],
        True,
        {"A": "1"},
    )
    _, workers = await v2("GET", f"{path}/workers")
    assert (workers["workers"], workers["summary"]["total"], workers["endpointVersion"]) == ([], 0, 1)
    assert await v2("DELETE", path) == (204, None)
    for method, suffix, body in (("GET", "", None), ("DELETE", "", None), ("PATCH", "", {}), ("GET", "/workers", None)):
        assert (await v2(method, f"{path}{suffix}", body))[1]["detail"] == "endpoint not found"


async def test_a_template_is_copied_into_an_endpoint_which_has_its_own_then() -> None:
    """As observed: `templateId` is copied once, the body wins, the variables are merged."""
    v2 = V2()
    template = await v2.made("/templates", {**TEMPLATE, "env": {"A": "1", "B": "2"}})
    body = {**ENDPOINT, "templateId": template["id"], "env": {"B": "3"}}
    del body["image"]
    made = await v2.made("/serverless", body)
    assert (made["image"], made["env"]) == ("me/worker:1", {"A": "1", "B": "3"})
    assert v2.account.endpoints.environment_of(made["id"]) == {"A": "1", "B": "3"}
    assert [each["name"] for each in (await v2("GET", "/templates"))[1]["templates"]] == ["t"]
    assert await v2("DELETE", f"/templates/{template['id']}") == (204, None)
    await v2("PATCH", f"/serverless/{made['id']}", {"image": "me/worker:2"})
    assert (await v2("GET", f"/serverless/{made['id']}"))[1]["image"] == "me/worker:2"
    other = await v2.made("/templates", {**TEMPLATE, "name": "o", "image": "me/other:1", "disk": 7})
    _, changed = await v2("PATCH", f"/serverless/{made['id']}", {"templateId": other["id"]})
    assert (changed["image"], changed["disk"], changed["env"]) == ("me/other:1", 7, {})


async def test_another_name_of_an_endpoint_renames_its_template_even_a_shared_one() -> None:
    """As observed."""
    v2 = V2()
    template = await v2.made("/templates", TEMPLATE)
    _, made = await v2.bare.rest("POST", "/endpoints", {"templateId": template["id"], "name": "e"})
    assert (await v2("PATCH", f"/serverless/{made['id']}", {"name": "f"}))[1]["name"] == "f"
    assert (await v2("GET", f"/templates/{template['id']}"))[1]["name"] == "f-template"


CPU = {"gpu": None, "cpu": [{"id": "cpu3c", "vcpuCount": 4}]}


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        ({"name": None}, 422, "$: missing property 'name'"),
        ({"type": None}, 422, "$: missing property 'type'"),
        ({"scaling": None}, 422, "$: missing property 'scaling'"),
        ({"scaling": {"type": "QUEUE_DELAY"}}, 422, "$.scaling: missing property 'queueDelay'"),
        (
            {"scaling": {"type": "QUEUE_DELAY", "queueDelay": 0.1}},
            422,
            "$.scaling.queueDelay: minimum: got 0.1, want 0.5",
        ),
        (
            {"scaling": {"type": "REQUEST_COUNT", "requestCount": 4, "queueDelay": 1}},
            422,
            "$.scaling: additional properties 'queueDelay' not allowed",
        ),
        (
            {"scaling": {"type": "REQUEST_COUNT", "requestCount": 4}, "workers": {"idleTimeout": 5}},
            422,
            "$.workers.idleTimeout: idleTimeout does not apply to REQUEST_COUNT scaling",
        ),
        ({"type": "LOAD_BALANCER"}, 400, "a LOAD_BALANCER endpoint scales by REQUEST_COUNT"),
        ({"workers": {"idleTimeout": 3601}}, 422, "$.workers.idleTimeout: maximum: got 3601, want 3600"),
        ({"workers": {"min": 4}}, 400, "workersMin must be between 0 and workersMax"),
        ({"image": None}, 422, "$: missing property 'image'"),
        ({"gpu": None}, 400, "exactly one of 'gpu' and 'cpu' must be given"),
        ({"gpu": {"count": 1}}, 422, "$.gpu: missing property 'pools'"),
        ({"gpu": {"pools": []}}, 422, "$.gpu.pools: minItems: got 0, want 1"),
        (
            {"gpu": {"pools": ["ADA_24"], "excludedTypes": ["NVIDIA L4"]}},
            400,
            "excluded type is in none of the pools: NVIDIA L4",
        ),
        (
            {"gpu": {"pools": ["ADA_24"], "allowedCudaVersions": ["12.8"], "minCudaVersion": "12.4"}},
            400,
            "allowedCudaVersions and minCudaVersion exclude each other",
        ),
        ({**CPU, "cpu": [{"id": "cpu3c", "vcpuCount": 3}]}, 422, "$.cpu[0].vcpuCount: got 3, want a power of two"),
        ({"templateId": "nowhere"}, 404, "template not found"),
        ({"workersMax": 3}, 422, "$: additional properties 'workersMax' not allowed"),
        ({"timeout": "1"}, 422, "$.timeout: got string, want integer"),
    ],
)
async def test_a_bad_endpoint_is_a_problem(change: Mapping[str, Any], status: int, reason: str) -> None:
    body = {key: value for key, value in {**ENDPOINT, **change}.items() if value is not None}
    answered, problem = await V2()("POST", "/serverless", body)
    assert (answered, problem.get("errors", [problem["detail"]])) == (status, [reason])


async def test_an_endpoint_stays_with_its_kind_of_hardware_and_a_template_for_pods_starts_none() -> None:
    v2 = V2()
    on_cpu = await v2.made("/serverless", {key: each for key, each in {**ENDPOINT, **CPU}.items() if each})
    assert (on_cpu["cpu"], "gpu" in on_cpu) == ([{"id": "cpu3c", "vcpuCount": 4, "memory": 16}], False)
    on_gpu = await v2.made("/serverless", ENDPOINT)
    for made, change in ((on_cpu, {"gpu": {"pools": ["ADA_24"]}}), (on_gpu, {"cpu": CPU["cpu"]})):
        assert (await v2("PATCH", f"/serverless/{made['id']}", change))[0] == 400
    excluded = await v2("PATCH", f"/serverless/{on_gpu['id']}", {"gpu": {"excludedTypes": ["NVIDIA L4"]}})
    assert excluded[1]["errors"] == ["$.gpu: missing property 'pools'"]
    for_pods = await v2.made("/templates", {**TEMPLATE, "serverless": False})
    refused = await v2("POST", "/serverless", {**ENDPOINT, "templateId": for_pods["id"]})
    assert (refused[0], refused[1]["errors"]) == (422, ["$.templateId: it is a template for pods"])


async def test_a_template_is_created_changed_and_deleted() -> None:
    clock = Stopped()
    v2 = V2(clock)
    wanted = {
        **TEMPLATE,
        "serverless": False,
        "args": "python -u h.py",
        "ports": ["8888/http"],
        "registry": "r",
        "mounts": {"persistent": {"size": 20, "path": "/w"}},
    }
    made = await v2.made("/templates", wanted)
    assert {key: made[key] for key in wanted} == wanted
    assert (made["cmd"], made["startSsh"], made["startJupyter"]) == (["python", "-u", "h.py"], True, True)
    path = f"/templates/{made['id']}"
    assert (await v2("PATCH", path, {"registry": None, "ports": [], "public": True, "startSsh": False}))[1] == {
        **made,
        "registry": None,
        "ports": [],
        "public": True,
        "startSsh": False,
    }
    assert (await v2("POST", "/templates", wanted))[1]["detail"] == "template name must be unique: t"
    assert (await v2("PATCH", path, {"mounts": {"network": []}}))[1]["errors"] == [
        "$.mounts: additional properties 'network' not allowed"
    ]
    v2.account.templates.use(made["id"], "pod")
    assert (await v2("DELETE", path))[0] == 400, "in use"
    v2.account.templates.release(made["id"], "pod", clock.now())
    clock.at += 120 * SECOND_US
    assert await v2("DELETE", path) == (204, None)
    assert (await v2("GET", path))[1]["detail"] == "template not found"


async def test_a_secret_is_rotated_and_its_value_never_shown() -> None:
    clock = Stopped()
    v2 = V2(clock)
    made = await v2.made("/account/secrets", {**SECRET, "description": "d"})
    assert made == {**made, "name": "hf", "description": "d", "valueLastUpdatedAt": None}
    clock.at += SECOND_US
    path = f"/account/secrets/{made['id']}"
    _, rotated = await v2("PATCH", path, {"value": "other", "description": ""})
    assert rotated == {**made, "description": None, "valueLastUpdatedAt": "2026-01-01T00:00:01.000Z"}
    assert v2.account.secrets.resolve({"A": "{{ RUNPOD_SECRET_hf }}"}) == {"A": "other"}
    assert (await v2("GET", "/account/secrets?name=HF"))[1] == {"secrets": [rotated]}
    assert (await v2("GET", "/account/secrets?name=h"))[1] == {"secrets": []}
    assert (await v2("POST", "/account/secrets", SECRET))[0] == 409
    assert (await v2("PATCH", path, {}))[0] == 422
    assert (await v2("DELETE", path), (await v2("GET", path))[1]["detail"]) == ((204, None), "secret not found")


@pytest.mark.parametrize("name", ["1st", "a b", "", "runpod_x", "n" * 192])
async def test_a_secrets_name_is_one_that_can_be_referred_to(name: str) -> None:
    assert (await V2()("POST", "/account/secrets", {**SECRET, "name": name}))[0] == 422


async def test_what_all_operations_have_in_common() -> None:
    v2 = V2()
    for path in ("/serverless", "/templates", "/account/secrets", "/catalog/gpus"):
        assert (await v2("GET", path, key="wrong"))[0] == 401
        assert (await v2("PUT", path))[0] == 405
    assert [each["pool"] for each in (await v2("GET", "/catalog/gpus"))[1]["gpus"] if each["id"] == "NVIDIA L4"] == [
        "AMPERE_24"
    ]
    assert (await v2("GET", "/catalog/gpus/NVIDIA L4"))[1]["name"] == "L4"
    assert (await v2("GET", "/catalog/gpus/nothing"))[0] == 404


async def test_a_list_comes_in_pages_newest_first() -> None:
    v2 = V2(page_size=2)
    names = [(await v2.made("/templates", {**TEMPLATE, "name": f"t{n}"}))["name"] for n in range(5)]
    seen, cursor = [], ""
    while True:
        _, page = await v2("GET", f"/templates{cursor}")
        seen += [each["name"] for each in page["templates"]]
        if not page["pagination"]["hasNextPage"]:
            break
        assert len(page["templates"]) == 2
        await v2.made("/templates", {**TEMPLATE, "name": f"late{len(seen)}"})
        cursor = f"?cursor={page['pagination']['nextCursor']}"
    assert (seen, page["pagination"]["nextCursor"]) == (names[::-1], None)
    assert len((await v2("GET", "/templates?limit=1"))[1]["templates"]) == 1
    assert (await v2("GET", f"/serverless{cursor}"))[0] == 422, "another operation's"
    for query in ("limit=0", "limit=1001", "limit=x", "cursor=", "cursor=%21", "cursor=AAA"):
        assert (await v2("GET", f"/templates?{query}"))[0] == 422


def test_a_cursor_outlives_what_it_points_at() -> None:
    pages = Pages(2)
    _, first = pages.cut("x", [1, 2, 3, 4], {})
    assert pages.cut("x", [1], {"cursor": str(first.next_cursor)})[0] == [1]
    with pytest.raises(ProblemRefusal):
        pages.cut("y", [1], {"cursor": str(first.next_cursor)})


async def test_templates_by_v1_have_its_names_and_defaults() -> None:
    bare = Bare(account())
    status, made = await bare.rest(
        "POST", "/templates", {"name": "t", "imageName": "a:1", "dockerStartCmd": ["a", "b c"]}
    )
    assert (status, made["containerDiskInGb"], made["volumeInGb"]) == (200, 50, 20)
    assert (made["ports"], made["dockerStartCmd"]) == (["8888/http", "22/tcp"], ["a", "b c"])
    path = f"/templates/{made['id']}"
    asked = (await bare.rest("GET", path))[1]
    assert made.keys() - asked.keys() == {"category", "containerDiskInGb", "volumeInGb", "volumeMountPath", "ports"} | {
        "isServerless"
    }, "what is as it was"
    change = {"env": {"A": "1"}, "ports": [], "readme": "r", "dockerEntrypoint": ["sh"], "containerRegistryAuthId": "c"}
    assert await bare.rest("PATCH", path, change) == (200, {**made, **change})
    assert await bare.rest("GET", "/templates") == (200, [(await bare.rest("GET", path))[1]])
    assert (await bare.rest("POST", "/templates", {"name": "u"}))[0] == 400
    assert (await bare.rest("POST", "/templates", {"name": 1}))[0] == 400
    assert await bare.rest("DELETE", path) == (204, None)
    assert await bare.rest("GET", path) == (404, {"error": "template not found", "status": 404})


@pytest.mark.parametrize("status", [404, 410])
async def test_a_service_can_be_without_an_interface(status: int) -> None:
    v2 = V2(without={"v1": status, "v2": status, "graphql": status})
    assert (await v2.bare.rest("GET", "/endpoints"))[1]["status"] == status
    assert (await v2.bare.graphql("{ myself { id } }"))[0] == status
    for path in ("/serverless", "/serverless/x", "/templates", "/account/secrets", "/catalog/gpus"):
        assert (await v2("GET", path))[0] == status
