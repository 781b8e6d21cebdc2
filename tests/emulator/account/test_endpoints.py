"""Endpoints as the emulator serves them: `/v1/endpoints`."""

from typing import Any

import pytest

from orchestrator.units import SECOND_US
from tests.emulator.accounts import KEY, SAVE, TEMPLATE, Bare, Stopped, account

pytestmark = pytest.mark.anyio

ENDPOINT = {"name": "e", "gpuTypeIds": ["A", "B"], "workersMin": 0, "workersMax": 2, "idleTimeout": 7}


async def saved(bare: Bare, **change: Any) -> str:
    template: str = (await bare.data(SAVE, input={**TEMPLATE, **change}))["saveTemplate"]["id"]
    return template


async def created(bare: Bare, **change: Any) -> dict[str, Any]:
    template = await saved(bare)
    status, record = await bare.rest("POST", "/endpoints", {**ENDPOINT, "templateId": template, **change})
    assert status == 200, record
    endpoint: dict[str, Any] = record
    return endpoint


async def test_an_endpoint_is_created_from_a_template() -> None:
    """contract, serverless: `POST {rest_url}/v1/endpoints` with the Endpoint fields."""
    record = await created(Bare(account()))
    assert {key: record[key] for key in ENDPOINT} == ENDPOINT
    assert record["createdAt"] == "2026-01-01T00:00:00.000Z"
    assert record["id"]


async def test_the_cuda_versions_that_are_allowed_are_kept_by_endpoints_and_templates() -> None:
    bare = Bare(account())
    record = await created(bare, allowedCudaVersions=["12.8", "12.9"])
    await bare.rest("PATCH", f"/endpoints/{record['id']}", {"workersMax": 1})
    assert (await bare.rest("GET", f"/endpoints/{record['id']}"))[1]["allowedCudaVersions"] == ["12.8", "12.9"]
    save = "mutation($input: EndpointInput!) { saveEndpoint(input: $input) { allowedCudaVersions } }"
    changed = await bare.data(save, input={"id": record["id"], "name": "e", "allowedCudaVersions": "12.8, 13.0"})
    assert changed["saveEndpoint"] == {"allowedCudaVersions": "12.8,13.0"}
    template = {**TEMPLATE, "name": "other", "allowedCudaVersions": ["12.8"]}
    save = "mutation($input: SaveTemplateInput) { saveTemplate(input: $input) { allowedCudaVersions } }"
    assert (await bare.data(save, input=template))["saveTemplate"] == {"allowedCudaVersions": ["12.8"]}


async def test_endpoints_are_listed_shown_and_deleted() -> None:
    bare = Bare(account())
    record = await created(bare)
    path = f"/endpoints/{record['id']}"
    assert await bare.rest("GET", "/endpoints") == (200, [record])
    assert await bare.rest("GET", path) == (200, record)
    _, with_template = await bare.rest("GET", f"{path}?includeTemplate=true")
    assert with_template["template"]["imageName"] == "me/worker:1"
    assert await bare.rest("DELETE", path) == (204, None)
    for method in ("GET", "DELETE", "PATCH"):
        body: dict[str, int] | None = {} if method == "PATCH" else None
        assert await bare.rest(method, path, body) == (404, {"error": "endpoint not found", "status": 404})
    assert await bare.rest("GET", "/endpoints") == (200, [])


@pytest.mark.parametrize(("method", "suffix"), [("PATCH", ""), ("POST", "/update")])
async def test_an_update_changes_what_it_names_and_nothing_else(method: str, suffix: str) -> None:
    bare = Bare(account())
    record = await created(bare)
    status, changed = await bare.rest(method, f"/endpoints/{record['id']}{suffix}", {"workersMax": 9, "ignored": 1})
    assert (status, changed) == (200, {**record, "workersMax": 9, "version": 1})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"templateId": None}, "templateId is required"),
        ({"templateId": "no"}, "template not found, or not a serverless template"),
        ({"workersMin": 3}, "workersMin must be between 0 and workersMax"),
        ({"idleTimeout": 0}, "idleTimeout must be between 1 and 3600 seconds"),
        ({"idleTimeout": 3601}, "idleTimeout must be between 1 and 3600 seconds"),
        ({"name": "n" * 192}, "name must have at most 191 characters"),
        ({"scalerValue": 0}, "scalerValue, gpuCount or executionTimeoutMs is too small"),
        ({"scalerType": "OTHER"}, "request could not be processed: Invalid enum value 'OTHER' - at `$.scalerType`"),
    ],
)
async def test_a_bad_endpoint_is_a_400(change: dict[str, object], reason: str) -> None:
    bare = Bare(account())
    body = {**ENDPOINT, "templateId": await saved(bare), **change}
    assert await bare.rest("POST", "/endpoints", body) == (400, {"error": reason, "status": 400})


async def test_a_template_for_pods_starts_no_endpoint() -> None:
    bare = Bare(account())
    template = await saved(bare, isServerless=False)
    assert (await bare.rest("POST", "/endpoints", {"templateId": template}))[0] == 400


async def test_without_a_name_it_has_the_templates() -> None:
    assert (await created(Bare(account()), name=None))["name"] == "t"


async def test_a_template_is_in_use_as_long_as_an_endpoint_has_it() -> None:
    """contract, templates, Deletion rule."""
    clock = Stopped()
    bare = Bare(account(clock))
    record = await created(bare)
    other = await saved(bare, name="other")
    delete = 'mutation { deleteTemplate(templateName: "t") }'
    assert "in use" in await bare.reason(delete)
    await bare.rest("PATCH", f"/endpoints/{record['id']}", {"templateId": other})
    assert "a moment ago" in await bare.reason(delete)
    clock.at += 120 * SECOND_US
    await bare.data(delete)
    delete = 'mutation { deleteTemplate(templateName: "other") }'
    assert "in use" in await bare.reason(delete)
    await bare.rest("DELETE", f"/endpoints/{record['id']}")
    clock.at += 120 * SECOND_US
    await bare.data(delete)


async def test_whoever_has_the_queues_is_told_of_every_endpoint() -> None:
    deployed: list[tuple[str, int]] = []
    removed: list[str] = []
    subject = account(deployed=lambda each: deployed.append((each.id, each.workers_max)), removed=removed.append)
    bare = Bare(subject)
    endpoint = (await created(bare))["id"]
    await bare.rest("PATCH", f"/endpoints/{endpoint}", {"workersMax": 9})
    assert (deployed, removed) == ([(endpoint, 2), (endpoint, 9)], [])
    await bare.rest("DELETE", f"/endpoints/{endpoint}")
    assert removed == [endpoint]


@pytest.mark.parametrize(
    ("stock", "wanted", "gpu"),
    [
        (None, ["A", "B"], "A"),
        (["B", "A"], ["A", "B"], "A"),
        (["B", "C"], ["A", "B"], "B"),
        (["C"], ["A", "B"], None),
        (["C"], [], "C"),
        (None, [], "NVIDIA GeForce RTX 4090"),
    ],
)
async def test_workers_get_the_first_gpu_of_the_list_that_is_available(
    stock: list[str] | None, wanted: list[str], gpu: str | None
) -> None:
    """contract, Endpoint: `gpuTypeIds` in priority order."""
    subject = account(gpus=stock)
    endpoint = (await created(Bare(subject), gpuTypeIds=wanted))["id"]
    assert subject.endpoints.gpu_of(endpoint) == gpu


async def test_workers_find_the_templates_environment_with_secrets_resolved() -> None:
    """Contract of templates, What the service does 1: a template is what a pod or worker starts from."""
    subject = account()
    bare = Bare(subject)
    subject.secrets.create("token", "s3cret", None, 0)
    template = await saved(bare, name="x", env=[{"key": "TOKEN", "value": "{{ RUNPOD_SECRET_token }}"}])
    record = await created(bare, templateId=template)
    assert subject.endpoints.environment_of(record["id"]) == {"TOKEN": "s3cret"}
    assert record["env"] == {"TOKEN": "{{ RUNPOD_SECRET_token }}"}
    assert subject.endpoints.environment_of("unknown") == {}


@pytest.mark.parametrize("headers", [{}, {"authorization": "Bearer wrong"}, {"x": "y"}])
async def test_a_wrong_key_is_a_401(headers: dict[str, str]) -> None:
    """contract, serverless, Authentication; the parameter is GraphQL's alone."""
    answer = await Bare(account()).http.get("/v1/endpoints", params={"api_key": KEY}, headers=headers)
    assert (answer.status_code, answer.json()) == (401, {"error": "unauthorized", "status": 401})


@pytest.mark.parametrize("body", [b"", b"[]", b'{"workersMax":"2"}', b"\xff"])
async def test_a_body_that_cannot_be_read_is_a_400(body: bytes) -> None:
    http = Bare(account()).http
    answer = await http.post("/v1/endpoints", content=body, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 400
