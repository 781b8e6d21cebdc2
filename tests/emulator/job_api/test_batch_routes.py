"""`/batch` over HTTP: forms, refusals, who may do what, and what the faults of the wire do to it."""

from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.batches.batch_rules import CALL_BYTES_MAX, DOCUMENTED_ON, BatchRules
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.callers import Caller
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import JobOperation, OperationLimit
from orchestrator.emulator.http.gate import READING, WRITING
from tests.emulator.emulators import Client, emulator, serving
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def requests(*numbers: int) -> list[Mapping[str, Any]]:
    return [{"input": {"n": n}} for n in numbers]


async def created(client: Client, *numbers: int) -> str:
    answer = await client.http.post("/batch", json=requests(*numbers))
    assert (answer.status_code, answer.json()["status"]) == (200, "DRAFT")
    batch: str = answer.json()["id"]
    return batch


async def counts(client: Client, batch: str) -> tuple[str, int, int]:
    """The status, how many requests, and how many have completed."""
    summary = (await client.http.get(f"/batch/{batch}")).json()
    return summary["status"], summary["requestTotal"], summary["requestCompleted"]


async def test_a_batch_is_made_filled_finalized_executed_and_read() -> None:
    async with serving(emulator(clock=VirtualClock(), batch=BatchRules(delay_s=600.0, workers=2))) as client:
        batch = await created(client)
        append = await client.http.post(f"/batch/{batch}/requests", json={"requests": requests(1, 2, 3, 4)})
        assert append.json() == {"id": batch, "status": "DRAFT"}
        second = (await client.http.get(f"/batch/{batch}/requests?offset=1&limit=1")).json()
        assert (await client.http.delete(f"/batch/{batch}/requests/{second['requests'][0]['id']}")).status_code == 200
        named = (await client.http.put(f"/batch/{batch}", json={"name": "captions"})).json()
        assert (named["name"], named["requestTotal"], named["endpointId"]) == ("captions", 3, "ep")
        final = await client.http.post(f"/batch/{batch}/finalize")
        assert final.json() == {"id": batch, "status": "FINALIZED"}
        await anyio.sleep(599)
        assert await counts(client, batch) == ("FINALIZED", 3, 0)
        await anyio.sleep(2)
        assert await counts(client, batch) == ("FINALIZED", 3, 3)
        page = (await client.http.get(f"/batch/{batch}/requests")).json()
        assert [each["output"] for each in page["requests"]] == [{"double": 2}, {"double": 6}, {"double": 8}]
        assert (page["total"], page["offset"], page["limit"], page["hasMore"]) == (3, 0, 50, False)
        listed = (await client.http.get("/batch")).json()
        assert [each["id"] for each in listed["batches"]] == [batch]
        assert (await client.post(f"/batch/{batch}/cancel"))[1]["status"] == "FINALIZED"


async def test_a_batch_has_workers_of_its_own_as_many_as_it_is_given() -> None:
    async def slow(job: Any) -> object:
        await anyio.sleep(10)
        return job["input"]

    subject = emulator(slow, clock=VirtualClock(), workers=1, batch=BatchRules(delay_s=0.0, workers=3))
    async with serving(subject) as client:
        batch = await created(client, *range(5))
        await client.post(f"/batch/{batch}/finalize")
        single = await client.run()
        await anyio.sleep(1)
        summary = (await client.http.get(f"/batch/{batch}")).json()
        assert (summary["requestInProgress"], (await client.status(single))["status"]) == (3, "IN_PROGRESS")
        await anyio.sleep(20)
        assert await counts(client, batch) == ("FINALIZED", 5, 5)
    figures = subject.stats().endpoints
    assert (figures["ep"].executed_s, figures["ep.batch"].executed_s) == (10.0, 50.0)


async def test_what_a_batch_costs_and_of_which_day_its_documents_are_is_told() -> None:
    subject = emulator(batch=BatchRules(price_share=0.7))
    async with serving(subject) as client:
        await created(client, 1)
    stats = subject.stats()
    shares = {name: figures.price_share for name, figures in stats.endpoints.items()}
    assert (shares, stats.batch_documented_on) == ({"ep": 1.0, "ep.batch": 0.7}, DOCUMENTED_ON)


async def test_the_workers_of_batches_are_no_endpoint() -> None:
    """Neither a job nor a batch is taken there, whatever ids there are."""
    subject = emulator(any_endpoint=True)
    async with serving(subject) as client:
        await created(client, 1)
        for path in ("/run", "/batch"):
            answer = await client.http.post(f"http://emulator/v2/ep.batch{path}", json={"input": {}})
            assert answer.status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/batch", b"{}", 400),
        ("POST", "/batch", b"[1]", 400),
        ("POST", "/batch", b'[{"inputs":{}}]', 400),
        ("POST", "/batch", b'[{"input":[1]}]', 400),
        ("POST", "/batch", b"not json", 400),
        ("POST", "/batch", b'[{"input":{"x":"\xff"}}]', 400),
        ("POST", "/batch", b"[" * 100_000, 400),
        ("POST", "/batch/BATCH/requests", b"[]", 400),
        ("POST", "/batch/BATCH/requests", b'{"requests":[{"input":{"n":1}},{"input":"x"}]}', 400),
        ("POST", "/batch/BATCH/requests", b" " * (CALL_BYTES_MAX + 1), 413),
        ("POST", "/batch", b" " * (CALL_BYTES_MAX + 1), 413),
        ("PUT", "/batch/BATCH", b'{"name":7}', 400),
        ("PUT", "/batch/BATCH", b'{"name":"%b"}' % (b"x" * 192), 400),
        ("GET", "/batch/BATCH/requests?offset=-1", b"", 400),
        ("GET", "/batch/BATCH/requests?limit=0", b"", 400),
        ("GET", "/batch?limit=many", b"", 400),
        ("GET", "/batch/batch_none", b"", 404),
        ("DELETE", "/batch/BATCH/requests/req_none", b"", 404),
        ("POST", "/batch/batch_none/finalize", b"", 404),
        ("PATCH", "/batch/BATCH", b"{}", 405),
    ],
)
async def test_what_is_not_taken_is_refused_in_the_form_of_the_job_interface(
    method: str, path: str, body: bytes, status: int
) -> None:
    async with serving(emulator()) as client:
        batch = await created(client, 1)
        answer = await client.http.request(method, path.replace("BATCH", batch), content=body)
        assert (answer.status_code, list(answer.json())) == (status, ["error"])
        assert await counts(client, batch) == ("DRAFT", 1, 0)


async def test_each_limit_is_refused_with_the_status_that_is_set() -> None:
    subject = emulator(batch=BatchRules(requests_max=2, active_max=1, queued_max=2, limit_status=409))
    async with serving(subject) as client:
        assert (await client.http.post("/batch", json=requests(1, 2, 3))).status_code == 409
        first, second = await created(client, 1), await created(client, 1)
        assert (await client.post(f"/batch/{first}/finalize"))[0] == 200
        status, refusal = await client.post(f"/batch/{second}/finalize")
        assert (status, refusal) == (409, {"error": "an endpoint has at most 1 active batches"})


async def test_a_batch_keeps_to_the_rate_that_is_set_for_it() -> None:
    subject = emulator(limits={JobOperation.BATCH: OperationLimit(requests=2)}, clock=VirtualClock())
    async with serving(subject) as client:
        await created(client)
        assert (await client.http.get("/batch")).status_code == 200
        assert (await client.http.get("/batch")).status_code == 429
        await client.run()
    assert subject.stats().endpoints["ep"].operations["batch"].refused == 1


async def test_who_may_only_read_may_look_at_batches_and_make_none() -> None:
    callers = {"reader": Caller(scopes=frozenset({READING})), "writer": Caller(scopes=frozenset({WRITING}))}
    async with serving(emulator(pods=PodSettings(callers=callers))) as client:

        async def status(method: str, path: str, key: str) -> int:
            headers = {"authorization": f"Bearer {key}"}
            return (await client.http.request(method, path, headers=headers, content=b"[]")).status_code

        assert await status("POST", "/batch", "reader") == 401
        assert await status("POST", "/batch", "writer") == 200
        assert await status("GET", "/batch", "reader") == 200


@pytest.mark.parametrize("step", ["create", "append", "finalize", "cancel"])
async def test_an_answer_is_lost_after_the_change_was_made(step: str) -> None:
    subject = emulator()
    async with serving(subject) as client:
        batch = await created(client, 1)
        subject.dice.faults = Faults(lost_answer=1.0)
        with pytest.raises(ConnectionCut):
            await _change(client, batch, step)
        subject.dice.faults = Faults()
        listed = (await client.http.get("/batch")).json()
        states = [(each["status"], each["requestTotal"]) for each in listed["batches"]]
    assert (
        states
        == {
            "create": [("DRAFT", 0), ("DRAFT", 1)],
            "append": [("DRAFT", 2)],
            "finalize": [("FINALIZED", 1)],
            "cancel": [("CANCELLED", 1)],
        }[step]
    )


async def _change(client: Client, batch: str, step: str) -> httpx.Response:
    match step:
        case "create":
            return await client.http.post("/batch", json=[])
        case "append":
            return await client.http.post(f"/batch/{batch}/requests", json={"requests": requests(2)})
        case _:
            return await client.http.post(f"/batch/{batch}/{step}")


async def test_a_question_loses_no_answer_and_an_answer_can_be_a_page_of_html() -> None:
    subject = emulator()
    async with serving(subject) as client:
        batch = await created(client, 1)
        subject.dice.faults = Faults(lost_answer=1.0)
        assert (await client.http.get(f"/batch/{batch}")).status_code == 200
        subject.dice.faults = Faults(not_json=1.0)
        page = await client.http.post(f"/batch/{batch}/finalize")
        assert (page.status_code, page.content[:9]) == (200, b"<!DOCTYPE")
        subject.dice.faults = Faults(server_error_after=1.0)
        assert (await client.http.post(f"/batch/{batch}/cancel")).status_code == 500
        subject.dice.faults = Faults(server_error=1.0)
        assert (await client.http.post("/batch", json=[])).status_code == 500
        subject.dice.faults = Faults()
        assert (await client.http.get("/batch")).json()["total"] == 1
        assert (await client.http.get(f"/batch/{batch}")).json()["status"] == "CANCELLED"
