"""Endpoints from Python, against the emulator."""

import httpx
import pytest

from orchestrator.account import Account
from orchestrator.account.endpoints.endpoints import EndpointRecord, EndpointSpec
from orchestrator.account.templates.templates import Template
from orchestrator.account.transport.rest_client import ProblemError
from orchestrator.client.jobs.refusals import AnswerError
from orchestrator.errors import UsageError
from tests.account.accounts import Script, client_of, scripted
from tests.emulator.accounts import KEY, account

pytestmark = pytest.mark.anyio


async def template(client: Account) -> str:
    saved = await client.templates.save(
        Template(name="t", image_name="a:1", container_disk_in_gb=5, volume_in_gb=0, is_serverless=True)
    )
    assert saved.id is not None
    return saved.id


async def test_an_endpoint_is_created_listed_shown_changed_and_deleted() -> None:
    """contract, serverless: creating an endpoint; the rest as observed."""
    client = client_of(account(strict=True))
    spec = EndpointSpec(
        name="e",
        template_id=await template(client),
        gpu_type_ids=("A", "B"),
        workers_min=0,
        workers_max=2,
        idle_timeout=7,
    )
    created = await client.endpoints.create(spec, more={"gpuCount": 2})
    assert (created.name, created.template_id, created.gpu_type_ids) == ("e", spec.template_id, ("A", "B"))
    assert (created.workers_min, created.workers_max, created.idle_timeout) == (0, 2, 7)
    assert created.raw["gpuCount"] == 2
    assert await client.endpoints.list() == (created,)
    assert await client.endpoints.show(created.id) == created
    changed = await client.endpoints.update(created.id, EndpointSpec(workers_max=5))
    assert (changed.workers_max, changed.name) == (5, "e")
    await client.endpoints.delete(created.id)
    with pytest.raises(ProblemError, match="404 Not Found: endpoint not found"):
        await client.endpoints.show(created.id)


async def test_the_request_is_the_contracts() -> None:
    """contract, serverless: `POST {rest_url}/v1/endpoints`, bearer, the Endpoint fields."""
    script = Script(httpx.Response(200, json={"id": "x"}))
    await scripted(script).endpoints.create(EndpointSpec(name="e", template_id="t", workers_max=1))
    (request,) = script.requests
    assert (request.method, str(request.url)) == ("POST", "http://emulator/v1/endpoints")
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.content == b'{"name":"e","templateId":"t","workersMax":1}'


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (EndpointSpec(name="e"), "from a template"),
        (EndpointSpec(template_id="t", name=""), "1 to 191 characters"),
        (EndpointSpec(template_id="t", gpu_type_ids=()), "GPU types"),
        (EndpointSpec(template_id="t", gpu_type_ids=("A", "A")), "each once"),
        (EndpointSpec(template_id="t", workers_min=-1), "fewer than 0"),
        (EndpointSpec(template_id="t", workers_min=3, workers_max=2), "at least 3 workers are more than at most 2"),
        (EndpointSpec(template_id="t", idle_timeout=0), "1 to 3600 seconds"),
    ],
)
async def test_what_breaks_a_rule_is_refused_before_it_is_sent(spec: EndpointSpec, problem: str) -> None:
    """Contract, Endpoint, `name` string."""
    script = Script(httpx.Response(200, json={"id": "x"}))
    with pytest.raises(UsageError, match=problem):
        await scripted(script).endpoints.create(spec)
    assert not script.requests


async def test_an_update_must_change_something_and_ids_are_ids() -> None:
    script = Script(httpx.Response(200, json={"id": "x"}))
    endpoints = scripted(script).endpoints
    with pytest.raises(UsageError, match="nothing was named"):
        await endpoints.update("x", EndpointSpec())
    with pytest.raises(UsageError, match="template's id is empty"):
        await endpoints.update("x", EndpointSpec(template_id=""))
    with pytest.raises(UsageError, match="no endpoint id"):
        await endpoints.delete("../x")
    assert not script.requests
    assert repr(endpoints) == "Endpoints(v1 Rest('http://emulator'), GraphQL('http://emulator/graphql'))"


async def test_an_odd_record_is_read_as_far_as_it_makes_sense() -> None:
    raw = {"id": "x", "name": None, "workersMax": "many", "gpuTypeIds": ["A"], "scalerType": "NEW", "unknown": {"a": 1}}
    record = await scripted(Script(httpx.Response(200, json=raw))).endpoints.show("x")
    assert record == EndpointRecord(id="x", gpu_type_ids=("A",), raw=raw)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"id":', b"[]", b'{"name":"e"}'])
async def test_an_answer_without_an_endpoint_is_an_error(body: bytes) -> None:
    with pytest.raises(AnswerError):
        await scripted(Script(httpx.Response(200, content=body))).endpoints.show("x")
