"""The pod interface over HTTP: statuses, problem documents, limits, keys and teams (contract of pods)."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from orchestrator.emulator.account.pod_bodies import parse_creation
from orchestrator.emulator.account.pod_records import ClusterRecord
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.callers import READ, Caller, Quota
from tests.emulator.pod_service import AT_ONCE, CPU, GPU, KEY, PodService, SetClock, act, created

pytestmark = pytest.mark.anyio


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with PodService(AT_ONCE).client() as http:
        yield http


def problem_of(answer: httpx.Response, status: int) -> Any:
    """The problem document, which every refusal is (contract, Errors)."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["status"] == status
    assert document["title"]
    assert document["detail"]
    return document


async def test_a_pod_is_created_shown_listed_modified_and_deleted(http: httpx.AsyncClient) -> None:
    pod = await created(http)
    assert (await http.get(f"/pods/{pod['id']}")).json() == pod
    assert (await http.get("/pods")).json() == {"pods": [pod]}
    assert (await http.patch(f"/pods/{pod['id']}", json={"name": "n"})).json()["name"] == "n"
    deleted = await http.delete(f"/pods/{pod['id']}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    problem_of(await http.get(f"/pods/{pod['id']}"), 404)


async def test_actions_answer_200_with_the_pod_and_terminate_204_without_a_body(http: httpx.AsyncClient) -> None:
    """Contract, Responses."""
    pod = await created(http)
    for action, status in (("restart", "RUNNING"), ("stop", "EXITED"), ("start", "RUNNING")):
        answer = await act(http, pod["id"], action)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["status"] == status
    answer = await act(http, pod["id"], "terminate")
    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers


async def test_the_query_parameter_brings_cluster_members() -> None:
    service = PodService()
    async with service.client() as http:
        await created(http)
        service.world.create("user", parse_creation(msgspec.json.encode(GPU)), 0, cluster=ClusterRecord(id="c1"))
        for query, count in (("", 1), ("?includeClusterPods=false", 1), ("?includeClusterPods=true&x=1", 2)):
            assert len((await http.get(f"/pods{query}")).json()["pods"]) == count
        problem_of(await http.get("/pods?includeClusterPods=maybe"), 422)


async def test_a_list_comes_in_pages_for_who_asks_for_them() -> None:
    """As published; who asks for none gets the contract's form."""
    service = PodService()
    async with service.client() as http:
        pods = [await created(http) for _ in range(3)]
        pods.reverse()  # newest first
        assert (await http.get("/pods")).json() == {"pods": pods}
        first = (await http.get("/pods?limit=2")).json()
        assert (first["pods"], first["pagination"]["hasNextPage"]) == (pods[:2], True)
        last = (await http.get("/pods", params={"limit": 2, "cursor": first["pagination"]["nextCursor"]})).json()
        assert last == {"pods": pods[2:], "pagination": {"nextCursor": None, "hasNextPage": False}}
        for wrong in ("limit=0", "limit=1001", "limit=x", "cursor=x", "cursor=pods-x"):
            problem_of(await http.get(f"/pods?{wrong}"), 422)


# --- 400 and 422 -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{", b'{"action": "stop"', b"\xff"])
async def test_what_is_not_json_is_400(http: httpx.AsyncClient, body: bytes) -> None:
    """Contract, Errors: 400 request malformed."""
    pod = await created(http)
    problem_of(await http.post(f"/pods/{pod['id']}/action", content=body), 400)
    problem_of(await http.post("/pods", content=body), 400)


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({}, ["$: missing property 'action'"]),
        ({"action": "reset"}, ["$.action: value must be one of 'start', 'stop', 'restart', 'terminate'"]),
        ({"action": 1}, ["$.action: got integer, want string"]),
        ({"action": None}, ["$.action: got null, want string"]),
        ({"action": "stop", "x": 1}, ["$: additional properties 'x' not allowed"]),
        ({"x": 1}, ["$: missing property 'action'", "$: additional properties 'x' not allowed"]),
        ([], ["$: got array, want object"]),
        (1.5, ["$: got number, want object"]),
    ],
)
async def test_an_action_body_of_another_form_is_422_with_each_failure(
    http: httpx.AsyncClient, body: Any, errors: list[str]
) -> None:
    """Contract, request body: exactly one property; "400 or 422" for a bad action is not shown, we answer 422."""
    pod = await created(http)
    document = problem_of(await http.post(f"/pods/{pod['id']}/action", json=body), 422)
    assert document == {
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "Request validation failed.",
        "errors": errors,
    }


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"image": "i", "gpu": {"id": "g"}}, "$: missing property 'name'"),
        ({**GPU, "name": ""}, "$.name: minLength: got 0, want 1"),
        ({"name": "n", "gpu": {"id": "g"}}, "$: missing property 'image'"),
        ({**GPU, "disk": 0}, "$.disk: minimum: got 0, want 1"),
        ({**GPU, "disk": True}, "$.disk: got boolean, want integer"),
        ({**GPU, "gpu": {"id": "g", "count": 0}}, "$.gpu.count: minimum: got 0, want 1"),
        ({**CPU, "cpu": {"id": "", "vcpuCount": 2}}, "$.cpu.id: minLength: got 0, want 1"),
        ({**CPU, "cpu": {"id": "c", "vcpuCount": 1}}, "$.cpu.vcpuCount: minimum: got 1, want 2"),
        ({**CPU, "cpu": {"id": "c", "vcpuCount": 6}}, "$.cpu.vcpuCount: got 6, want a power of two"),
        ({**GPU, "env": {"A": 1}}, "$.env.A: got integer, want string"),
        ({**GPU, "ports": ["80/http", "80"]}, "$.ports[1]: does not match 'port/protocol'"),
        ({**GPU, "ports": ["70000/tcp"]}, "$.ports[0]: does not match 'port/protocol'"),
        ({**GPU, "cloud": "PRIVATE"}, "$.cloud: value must be one of 'SECURE', 'COMMUNITY'"),
        ({**GPU, "args": "'"}, "$.args: No closing quotation"),
        ({**GPU, "args": '{"shell": []}'}, "$.args: $: additional properties 'shell' not allowed"),
        ({**GPU, "mounts": {"other": 1}}, "$.mounts: additional properties 'other' not allowed"),
        (
            {**GPU, "mounts": {"persistent": {"size": 9, "path": "/p"}}},
            "$.mounts.persistent.size: minimum: got 9, want 10",
        ),
        ({**GPU, "mounts": {"persistent": {"size": 10}}}, "$.mounts.persistent: missing property 'path'"),
        ({**GPU, "mounts": {"network": [{"path": "/n"}]}}, "$.mounts.network[0]: missing property 'volumeId'"),
        ({**GPU, "mounts": {"network": [{"volumeId": "v"}]}}, "$.mounts.network[0]: missing property 'path'"),
        (
            {**GPU, "mounts": {"global": [{"volumeId": "a"}, {"volumeId": "b"}]}},
            "$.mounts.global: maxItems: got 2, want 1",
        ),
        (
            {**GPU, "mounts": {"global": [{"volumeId": "a", "size": 1}]}},
            "$.mounts.global[0]: additional properties 'size' not allowed",
        ),
    ],
)
async def test_a_new_pod_of_another_form_is_422(http: httpx.AsyncClient, body: Any, error: str) -> None:
    """Contract, Field bounds and Mounts; 422 is for what fails validation."""
    assert problem_of(await http.post("/pods", json=body), 422)["errors"] == [error]


@pytest.mark.parametrize(
    "change",
    [
        {"gpu": {"id": "g"}, "cpu": {"id": "c", "vcpuCount": 2}},
        {"mounts": {"persistent": {"size": 10, "path": "/p"}, "network": [{"volumeId": "v", "path": "/n"}]}},
        {"mounts": {"persistent": {"size": 10, "path": "/p"}, "global": [{"volumeId": "v"}]}},
        {"args": "a b", "cmd": ["a"]},
        {"args": "a b", "entrypoint": ["a"]},
    ],
)
async def test_a_pod_that_contradicts_a_rule_is_400(http: httpx.AsyncClient, change: Any) -> None:
    """Contract, Mounts rule 1 and Container configuration rule 3; 400 is for conflicts with the request rules."""
    problem_of(await http.post("/pods", json={**GPU, **change}), 400)


async def test_neither_gpu_nor_cpu_is_400(http: httpx.AsyncClient) -> None:
    problem_of(await http.post("/pods", json={"name": "n", "image": "i"}), 400)


async def test_a_persistent_mount_on_a_cpu_pod_is_400(http: httpx.AsyncClient) -> None:
    """Contract, Mounts: persistent is not allowed on CPU pods."""
    problem_of(await http.post("/pods", json={**CPU, "mounts": {"persistent": {"size": 10, "path": "/p"}}}), 400)


async def test_a_mount_that_lacks_a_field_is_422_at_modification(http: httpx.AsyncClient) -> None:
    """Contract, Mounts rule 4: a missing required field is rejected with 422."""
    pod = await created(http, mounts={"network": [{"volumeId": "v", "path": "/n"}]})
    problem_of(await http.patch(f"/pods/{pod['id']}", json={"mounts": {"network": [{"path": "/m"}]}}), 422)


async def test_a_body_that_is_too_long_is_413(http: httpx.AsyncClient) -> None:
    problem_of(await http.post("/pods", content=b" " * (1024 * 1024 + 1)), 413)


# --- other refusals --------------------------------------------------------------------------------------------------


async def test_an_unknown_pod_is_404_and_an_invalid_action_409(http: httpx.AsyncClient) -> None:
    """Contract, Errors."""
    problem_of(await act(http, "unknown", "stop"), 404)
    pod = await created(http)
    document = problem_of(await act(http, pod["id"], "start"), 409)
    assert document["title"] == "Conflict"
    assert document["detail"] == "action 'start' is not valid for status RUNNING; valid: stop, restart, terminate"


async def test_another_method_is_405_with_those_that_are_allowed(http: httpx.AsyncClient) -> None:
    for path, allow in (("/pods", "GET, POST"), ("/pods/a", "GET, PATCH, DELETE"), ("/pods/a/action", "POST")):
        answer = await http.put(path)
        problem_of(answer, 405)
        assert answer.headers["allow"] == allow


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer ", KEY, "Basic abc", "Bearer wrong"])
async def test_a_token_that_is_missing_malformed_or_unknown_is_401_without_limits(authorization: str) -> None:
    """Contract, Authentication 3; a 401 carries no limit headers (as observed)."""
    async with PodService(callers={KEY: Caller()}).client() as http:
        answer = await http.get("/pods", headers={"authorization": authorization})
    problem_of(answer, 401)
    assert "ratelimit" not in answer.headers
    assert answer.headers["x-request-id"]


async def test_a_key_without_the_permission_is_403() -> None:
    """Contract, Authentication 2; the scopes are not shown, ours are pods:read and pods:write."""
    callers = {"reader": Caller(scopes=frozenset({READ})), "none": Caller(scopes=frozenset())}
    service = PodService(callers=callers)
    async with service.client("reader") as http:
        assert (await http.get("/pods")).status_code == 200
        answer = await http.post("/pods", json=GPU)
        assert problem_of(answer, 403)["detail"] == "access denied"
        assert "ratelimit" in answer.headers
    async with service.client("none") as http:
        problem_of(await http.get("/pods"), 403)


async def test_teams() -> None:
    """Contract, Authentication 4 and 5."""
    callers = {
        "session": Caller(user="ann", session=True, teams=frozenset({"red"})),
        "key": Caller(user="ann"),
        "red-key": Caller(user="ann", team="red"),
    }
    service = PodService(callers=callers)
    async with service.client("red-key") as http:
        pod = await created(http)

    async def sees(key: str, **headers: str) -> bool:
        async with service.client(key, **headers) as http:
            return [each["id"] for each in (await http.get("/pods")).json()["pods"]] == [pod["id"]]

    assert await sees("red-key")
    assert await sees("session", X_Team_Id="red")
    assert not await sees("session")
    assert not await sees("session", X_Team_Id="blue")
    assert not await sees("key", X_Team_Id="red")


# --- limits ----------------------------------------------------------------------------------------------------------

SMALL = {"minute": Quota(requests=2, window_s=60), "hour": Quota(requests=3, window_s=3600)}


async def test_both_headers_come_with_every_answer_to_a_known_caller(http: httpx.AsyncClient) -> None:
    """Contract, Limits 1 to 4: structured fields, one member for each of the three windows."""
    headers = (await http.get("/pods")).headers
    assert headers["ratelimit"] == '"minute";r=59;t=60, "hour";r=2999;t=3600, "day";r=49999;t=86400'
    assert headers["ratelimit-policy"] == '"minute";q=60;w=60, "hour";q=3000;w=3600, "day";q=50000;w=86400'
    assert re.fullmatch(r"[0-9a-f-]{36}", headers["x-request-id"])
    assert "ratelimit" in (await http.get("/pods/unknown")).headers


async def test_a_window_that_is_used_up_is_429_and_names_itself() -> None:
    """Contract, Errors and Limits 5: the problem names the window, `Retry-After` says when it is over."""
    clock = SetClock()
    service = PodService(clock=clock, quotas=SMALL)
    async with service.client() as http:
        for _ in range(2):
            await http.get("/pods")
            clock.forward(10.5)
        answer = await http.get("/pods")
        assert problem_of(answer, 429)["detail"] == "rate limit exceeded for the minute window"
        assert answer.headers["retry-after"] == "39"
        assert answer.headers["ratelimit"] == '"minute";r=0;t=39, "hour";r=1;t=3579'
        clock.forward(39)
        assert (await http.get("/pods")).status_code == 200
        answer = await http.get("/pods")
        assert problem_of(answer, 429)["detail"] == "rate limit exceeded for the hour window"


async def test_limits_are_of_a_user_and_some_have_none() -> None:
    """Contract, Limits 1 and 4."""
    callers = {"a": Caller(user="ann"), "a2": Caller(user="ann"), "b": Caller(user="bob"), "x": Caller(exempt=True)}
    service = PodService(callers=callers, quotas={"minute": Quota(requests=1, window_s=60)})
    answers = []
    for key in ("a", "a2", "b", "x", "x"):
        async with service.client(key) as http:
            answers.append(await http.get("/pods"))
    assert [answer.status_code for answer in answers] == [200, 429, 200, 200, 200]
    assert "ratelimit" not in answers[-1].headers
    assert "ratelimit-policy" not in answers[-1].headers


async def test_a_caller_who_hangs_up_in_the_middle_of_a_body_gets_no_answer() -> None:
    service = PodService()

    async def hang_up() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    headers = [(b"authorization", b"Bearer key")]
    scope = {"type": "http", "method": "POST", "path": "/v2/pods", "query_string": b"", "headers": headers}
    with pytest.raises(ConnectionCut):
        await service.app(scope, hang_up, send)
