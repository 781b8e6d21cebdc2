"""The log of an emulated pod: its lines, and which of them a request gets (as published)."""

from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.account.pod_logs import TAIL_MAX
from tests.client.event_streams import Live
from tests.emulator.pod_service import AT_ONCE, KEY, PodService, act, created
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SOURCES = "source: must be one of container, system"


async def log(http: httpx.AsyncClient, pod_id: str, last_id: str = "", **query: str) -> list[dict[str, Any]]:
    """The lines that a request brings, with their ids, of a pod whose log has an end."""
    headers = {"last-event-id": last_id} if last_id else {}
    answer = await http.get(f"/pods/{pod_id}/logs", params=query, headers=headers)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    found = []
    for event in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in event.splitlines() if not line.startswith(":"))
        if fields:
            found.append({"id": fields["id"], **httpx.Response(200, text=fields["data"]).json()})
    return found


async def test_a_request_gets_the_last_lines_those_since_then_or_those_behind_one() -> None:
    """Not in the contract: `tail`, `since`, `source` and `Last-Event-ID`."""
    emulated = PodService(AT_ONCE)
    async with emulated.client() as http:
        pod_id = (await created(http))["id"]
        for number in range(120):
            emulated.clock.forward(1)  # type: ignore[attr-defined]
            emulated.world.print(pod_id, f"{number}", emulated.clock.now())
        await act(http, pod_id, "stop")
        everything = await log(http, pod_id, tail="5000")
        assert everything[0] == {
            "id": "2026-01-01T00:00:00.000Z/000000000001",
            "source": "system",
            "line": "pod created with image img:1",
            "ts": "2026-01-01T00:00:00.000Z",
        }
        assert await log(http, pod_id) == everything[-100:]
        assert await log(http, pod_id, tail="0") == []
        assert await log(http, pod_id, tail="2", source="container") == everything[-3:-1]
        assert [line["line"] for line in await log(http, pod_id, since="2026-01-01T00:02:00Z")] == [
            *("119", "container stopped"),
        ]
        behind = everything[-3]["id"]
        assert await log(http, pod_id, behind, tail="1", since="2026-01-01T00:02:00Z") == everything[-2:]
        assert await log(http, pod_id, "somebody else's") == everything[-100:]
        for number in range(TAIL_MAX):
            emulated.world.print(pod_id, f"{number}", emulated.clock.now())
        assert (await log(http, pod_id, tail="5000"))[0]["line"] == "0"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ({"tail": "5001"}, "tail: must be a whole number from 0 to 5000"),
        ({"tail": "-1"}, "tail: must be a whole number from 0 to 5000"),
        ({"since": "2026-01-01"}, "since: must be a date-time"),
        ({"since": "yesterday"}, "since: must be a date-time"),
        ({"source": "both"}, SOURCES),
    ],
)
async def test_a_question_of_another_form_is_422(query: dict[str, str], error: str) -> None:
    async with PodService(AT_ONCE).client() as http:
        pod_id = (await created(http))["id"]
        answer = await http.get(f"/pods/{pod_id}/logs", params=query)
        assert (answer.status_code, answer.json()["errors"]) == (422, [error])


async def test_the_log_of_a_pod_that_nobody_knows_is_404_and_takes_a_key() -> None:
    emulated = PodService(AT_ONCE)
    async with emulated.client() as http:
        answer = await http.get("/pods/p1/logs")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")
        assert (await http.post("/pods/p1/logs")).headers["allow"] == "GET"
    async with emulated.client(key="") as http:
        assert (await http.get("/pods/p1/logs")).status_code == 401


async def test_a_stream_in_which_nothing_happens_shows_that_it_is_there_until_its_pod_is_gone() -> None:
    emulated = PodService(AT_ONCE, clock=VirtualClock())
    async with emulated.client() as http, anyio.create_task_group() as group:
        pod_id = (await created(http))["id"]
        group.start_soon(terminate_later, http, pod_id)
        transport = Live(emulated.app, group)
        url = f"http://emulator/v2/pods/{pod_id}/logs?tail=0"
        request = httpx.Request("GET", url, headers={"authorization": f"Bearer {KEY}"})
        answer = await transport.handle_async_request(request)
        pieces = [(round(anyio.current_time()), piece) async for piece in answer.aiter_bytes()]
        group.cancel_scope.cancel()
    assert pieces == [(0, b":\n\n"), (15, b":\n\n"), (30, b":\n\n")]


async def terminate_later(http: httpx.AsyncClient, pod_id: str) -> None:
    await anyio.sleep(40)
    await act(http, pod_id, "terminate")
