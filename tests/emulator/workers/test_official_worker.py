"""The official worker, unmodified, as processes that the emulator starts: the states that were observed.

A process takes a second or two to start and pauses for one between jobs, so all of it happens at once: each scenario
has an endpoint of its own, and with it a worker, and tells what it saw. The tests are about what was told.
"""

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.serving import serve
from tests.emulator.served import ServedClient, talking_to

pytestmark = [pytest.mark.anyio, pytest.mark.system, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("official_worker.py")

PATIENT: Mapping[str, Any] = {"ping_interval_s": 1.0, "silence_s": 60.0, "take_hold_s": 2.0, "listen_grace_s": 12.0}
"""A busy machine may delay pings and polls by seconds."""

VALUES: tuple[Any, ...] = ({"a": 1}, "é", 5, [1, 2], True, None)
FAILING = {"raise": "handler: broken", "yield": "out of chunks"}

LONG_JOBS = 8
LATE_S_MAX = 60.0
"""So long an update that overtakes nothing may take."""

Story = Mapping[str, Any]
Scenario = Callable[[ServedClient, Path], Awaitable[Story]]


async def plain(client: ServedClient, folder: Path) -> Story:
    """Jobs that a plain handler, eight at a time, ends in every way; then one that asks for another worker."""
    endpoint = "plain"
    given: dict[str, dict[str, Any]] = {
        f"returned {number}": {"do": "return", "value": value} for number, value in enumerate(VALUES)
    }
    given["empty"] = {"do": "return", "value": {}}
    given["error"] = {"do": "return", "value": {"error": "x", "p": 1}}
    given["odd error"] = {"do": "return", "value": {"error": {"code": 5}}}
    given["raised"] = {"do": "raise", "value": "bad"}
    jobs = {name: await client.submit(endpoint, each) for name, each in given.items()}
    mute = await client.submit(endpoint, {"do": "not json"}, policy={"executionTimeout": 15_000})
    told = {name: await client.end_of(endpoint, job_id) for name, job_id in jobs.items()}
    told["not json"] = await client.end_of(endpoint, mute)
    shown = folder / "shown"
    progressing = await client.submit(endpoint, {"do": "progress", "value": {"percent": 50}, "until": str(shown)})
    told["on its way"] = await client.until(endpoint, progressing, status="IN_PROGRESS", output={"percent": 50})
    shown.touch()
    told["progressed"] = await client.end_of(endpoint, progressing)
    told["refreshing"] = await client.outcome(endpoint, {"do": "return", "value": {"refresh_worker": True, "a": 1}})
    told["after it"] = await client.outcome(endpoint, {"do": "who"})
    return told


async def refreshing(client: ServedClient, _: Path) -> Story:
    """Each job has another worker by configuration."""
    return {str(number): await client.outcome("refreshing", {"do": "who"}) for number in range(2)}


async def stream(client: ServedClient, _: Path) -> Story:
    """A generator that is read while it goes on, and two that fail."""
    job_id = await client.submit("stream", {"n": 3, "pause": 0.2})
    chunks: list[Any] = []
    part: dict[str, Any] = {"status": "IN_QUEUE"}
    while part["status"] != "COMPLETED":
        part = (await client.http.get(f"/stream/stream/{job_id}", params={"wait": 300_000})).json()
        chunks += part["stream"]
    told: dict[str, Any] = {"chunks": chunks, "record": await client.status("stream", job_id)}
    for fail in FAILING:
        failed = await client.submit("stream", {"n": 1, "fail": fail})
        told[fail] = await client.end_of("stream", failed)
        told[f"stream of {fail}"] = (await client.http.get(f"/stream/stream/{failed}")).json()
    return told


async def aggregate(client: ServedClient, folder: Path) -> Story:
    """A generator whose chunks are its output; then one that does not listen to its cancellation."""
    told = {"record": await client.outcome("aggregate", {"n": 2})}
    begins = folder / "begins"
    os.mkfifo(begins)
    job_id = await client.submit("aggregate", {"n": 2, "pause": 600, "begins": str(begins)})
    told["chunks"] = (await client.http.get(f"/aggregate/stream/{job_id}", params={"wait": 300_000})).json()["stream"]
    assert await anyio.Path(begins).read_text() == "now"  # from here on nothing else happens at the worker
    await client.http.post(f"/aggregate/cancel/{job_id}")  # sooner, it would listen, and then begin
    told["after"] = await client.outcome("aggregate", {"n": 1})
    return told


async def sleeping(client: ServedClient, folder: Path) -> Story:
    """A job that is cancelled mid-way, one whose input is empty, and one after them."""
    mark = folder / "stopped"
    job_id = await client.submit("sleeping", {"seconds": 300, "mark": str(mark)})
    told: dict[str, Any] = {"id": job_id, "before": await client.until("sleeping", job_id, status="IN_PROGRESS")}
    told["answer"] = (await client.http.post(f"/sleeping/cancel/{job_id}")).json()
    told["empty"] = await client.outcome("sleeping", {})
    told["mark"] = mark.read_text()
    told["after"] = await client.outcome("sleeping", {"seconds": 0.1})
    told["cancelled"] = await client.status("sleeping", job_id)
    return told


async def concurrent(client: ServedClient, folder: Path) -> Story:
    """Five jobs for a worker that takes four at a time; then one during which it is told to go."""
    held, gone = folder / "held", folder / "gone"
    jobs = [await client.submit("concurrent", {"until": str(held)}) for _ in range(5)]
    for job_id in jobs[:4]:
        await client.until("concurrent", job_id, status="IN_PROGRESS")
    told: dict[str, Any] = {"at once": (await client.http.get("/concurrent/health")).json()["jobs"]}
    held.touch()
    told["records"] = [await client.end_of("concurrent", job_id) for job_id in jobs]
    job_id = await client.submit("concurrent", {"until": str(gone)})
    worker_id = (await client.until("concurrent", job_id, status="IN_PROGRESS"))["workerId"]
    client.service.emulator.world.endpoints.retire("concurrent", worker_id)
    await client.http.get("/concurrent/health")  # the world goes on at each request, and the worker is told
    next_id = await client.submit("concurrent", {"seconds": 0.1})
    gone.touch()
    told["going"] = await client.end_of("concurrent", job_id)
    told["next"] = await client.end_of("concurrent", next_id)
    told["health"] = (await client.http.get("/concurrent/health")).json()
    return told


async def long(client: ServedClient, _: Path) -> Story:
    """Jobs that report how far they are, with the helper for images and without it."""
    late, told = client.service.emulator.world.executions.late_progress, dict[str, Any]()
    for endpoint in ("hasty", "long"):
        jobs = [await client.submit(endpoint, {"n": n}) for n in range(LONG_JOBS)]
        told[endpoint] = [await client.end_of(endpoint, job_id) for job_id in jobs]
    with anyio.move_on_after(LATE_S_MAX):
        while not late["hasty"]:
            await client.outcome("hasty", {"n": LONG_JOBS})
    return {**told, "late": dict(late)}


SCENARIOS: tuple[Scenario, ...] = (plain, refreshing, stream, aggregate, sleeping, concurrent, long)


class Stories:
    """What the scenarios told, or the error that one ended in."""

    def __init__(self) -> None:
        self._told: dict[Scenario, Story | Exception] = {}

    async def hear(self, scenario: Scenario, client: ServedClient, folder: Path) -> None:
        try:
            self._told[scenario] = await scenario(client, folder)
        except Exception as error:  # noqa: BLE001  # fails the tests of this scenario and of no other
            self._told[scenario] = error

    def of(self, scenario: Scenario) -> Story:
        told = self._told[scenario]
        if isinstance(told, Exception):
            raise told
        return told


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def stories(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stories]:
    """Ten seconds a second, so that a worker is given up after six."""
    stories, folder = Stories(), tmp_path_factory.mktemp("official")
    scaling = Scaling(workers_max=1, idle_timeout_s=3600)
    command = (sys.executable, str(PROGRAM))
    async with (
        serve(command=command, scaling=scaling, time_scale=10.0, **PATIENT) as service,
        talking_to(service) as client,
    ):
        async with anyio.create_task_group() as tasks:
            for scenario in SCENARIOS:
                tasks.start_soon(stories.hear, scenario, client, folder)
        yield stories


@pytest.mark.parametrize("number", range(len(VALUES)), ids=[str(value) for value in VALUES])
async def test_whatever_a_handler_returns_is_the_output_of_a_completed_job(stories: Stories, number: int) -> None:
    record = stories.of(plain)[f"returned {number}"]
    assert (record["status"], record["output"]) == ("COMPLETED", VALUES[number])
    assert {"delayTime", "executionTime", "workerId"} <= record.keys()


async def test_an_empty_object_is_no_output(stories: Stories) -> None:
    record = stories.of(plain)["empty"]
    assert record["status"] == "COMPLETED"
    assert "output" not in record


async def test_a_returned_error_is_a_failure_beside_what_else_was_returned(stories: Stories) -> None:
    record = stories.of(plain)["error"]
    assert (record["status"], record["error"], record["output"]) == ("FAILED", "x", {"p": 1})


async def test_an_error_that_is_no_text_is_lost_and_the_job_completed(stories: Stories) -> None:
    record = stories.of(plain)["odd error"]
    assert record["status"] == "COMPLETED"
    assert record.keys().isdisjoint({"output", "error"})


async def test_an_exception_is_a_failure_described_by_a_document_inside_a_text(stories: Stories) -> None:
    record = stories.of(plain)["raised"]
    assert record["status"] == "FAILED"
    error = json.loads(record["error"])
    assert (error["error_message"], error["worker_id"]) == ("bad", record["workerId"])


async def test_progress_is_the_output_until_the_job_ends(stories: Stories) -> None:
    told = stories.of(plain)
    assert (told["on its way"]["output"], told["progressed"]["output"]) == ({"percent": 50}, "done")


async def test_a_result_that_is_not_json_is_never_posted_and_the_job_times_out(stories: Stories) -> None:
    assert stories.of(plain)["not json"]["status"] == "TIMED_OUT"


async def test_refreshing_by_the_result_completes_the_job_and_replaces_the_worker(stories: Stories) -> None:
    first, second = stories.of(plain)["refreshing"], stories.of(plain)["after it"]
    assert (first["status"], first["output"]) == ("COMPLETED", {"a": 1})
    assert second["status"] == "COMPLETED"
    assert second["workerId"] != first["workerId"]


async def test_refreshing_by_the_configuration_gives_each_job_a_new_worker(stories: Stories) -> None:
    first, second = stories.of(refreshing).values()
    assert (first["status"], second["status"]) == ("COMPLETED", "COMPLETED")
    assert first["workerId"] != second["workerId"]


async def test_a_generators_chunks_are_streamed_once_and_are_no_output(stories: Stories) -> None:
    told = stories.of(stream)
    assert told["chunks"] == [{"output": {"n": n}} for n in range(3)]
    assert told["record"]["status"] == "COMPLETED"
    assert "output" not in told["record"]


async def test_an_aggregating_generator_has_its_chunks_as_output_too(stories: Stories) -> None:
    record = stories.of(aggregate)["record"]
    assert (record["status"], record["output"]) == ("COMPLETED", [{"n": 0}, {"n": 1}])


@pytest.mark.parametrize(("fail", "error"), FAILING.items())
async def test_a_generator_that_fails_fails_its_job(stories: Stories, fail: str, error: str) -> None:
    told = stories.of(stream)
    assert told[fail]["status"] == "FAILED"
    assert told[fail]["error"].startswith(error)
    assert told[f"stream of {fail}"] == {"status": "FAILED", "stream": [{"output": {"n": 0}}]}


async def test_a_cancelled_job_is_stopped_at_the_worker_which_goes_on(stories: Stories) -> None:
    told = stories.of(sleeping)
    assert told["answer"] == {"id": told["id"], "status": "CANCELLED"}
    assert told["mark"] == told["id"]
    assert (told["after"]["status"], told["after"]["workerId"]) == ("COMPLETED", told["before"]["workerId"])
    assert told["cancelled"]["status"] == "CANCELLED"


async def test_an_empty_input_is_lost_on_the_way_and_its_job_silent_twice(stories: Stories) -> None:
    record = stories.of(sleeping)["empty"]
    assert (record["status"], record["retries"]) == ("FAILED", 1)
    assert record["error"] == "job timed out after 1 retries"


async def test_a_worker_that_does_not_listen_when_its_job_is_cancelled_is_replaced(stories: Stories) -> None:
    before, after = stories.of(aggregate)["record"], stories.of(aggregate)["after"]
    assert stories.of(aggregate)["chunks"] == [{"output": {"n": 0}}], "its handler was at work"
    assert (after["status"], after["workerId"] == before["workerId"]) == ("COMPLETED", False)


async def test_a_concurrent_worker_holds_several_jobs_at_once(stories: Stories) -> None:
    told = stories.of(concurrent)
    assert (told["at once"]["inProgress"], told["at once"]["inQueue"]) == (4, 1)
    records = told["records"]
    assert {record["status"] for record in records} == {"COMPLETED"}
    assert len({record["workerId"] for record in records}) == 1


async def test_a_worker_that_is_told_to_go_finishes_its_job_first(stories: Stories) -> None:
    told = stories.of(concurrent)
    assert (told["going"]["status"], told["next"]["status"]) == ("COMPLETED", "COMPLETED")
    assert told["next"]["workerId"] != told["going"]["workerId"]
    assert told["health"]["workers"]["running"] == 0


async def test_with_the_helper_no_report_comes_after_its_result_and_without_it_some_do(stories: Stories) -> None:
    """A thousand jobs: `python -m tests.emulator.long_jobs`."""
    told = stories.of(long)
    assert told["late"].get("long", 0) == 0
    assert told["late"]["hasty"] > 0
    outputs = [record["output"] for record in told["long"]]
    unfinished = {"unfinished": True, "seq": 4, "checkpoint": {"n": 2}}
    assert outputs == [unfinished if n % 2 else {"n": 3} for n in range(LONG_JOBS)]
