"""The whole program without its command line, on virtual time."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.run import run
from orchestrator.api.runs.start_and_stop_texts import safe_text
from orchestrator.client import Service
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import StoppedError
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Snapshot, Summary
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL, SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Silence(SilentConsole):
    """A console that keeps what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, line: str) -> None:
        self.lines.append(line)

    def warn(self, line: str) -> None:
        self.lines.append(line)

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        while True:
            look()
            await anyio.sleep(1)


async def program(folder: Path, service: SimulatedService, clock: VirtualClock, console: Silence, jobs: int) -> Summary:
    empty_ledger(folder / "ledger.db")
    return await carried_out(request_in(folder, jobs), service, clock, console)


def request_in(folder: Path, jobs: int) -> RunRequest:
    """What `orchestrator run` asks for, with an input of so many rows; without the breaker, so that all go at once."""
    source = folder / "in.jsonl"
    source.write_text("".join(json.dumps({"input": {"n": n}}) + "\n" for n in range(jobs)))
    return RunRequest(
        name="in",
        source=str(source),
        endpoint=ENDPOINT,
        ledger=folder / "ledger.db",
        output=folder / "out.jsonl",
        errors=folder / "errors.jsonl",
        connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        settings=RunSettings(breaker=OFF),
    )


async def carried_out(request: RunRequest, service: SimulatedService, clock: VirtualClock, console: Silence) -> Summary:
    return await run(request, console, surroundings(service, clock))


def surroundings(service: SimulatedService, clock: VirtualClock) -> Dependencies:
    """What a process finds around it, of which that service is the only one."""
    return Dependencies(
        clock=clock,
        environ={},
        service=lambda connection, clock: Service(
            connection.serverless_url, "key", clock, transport=service.transport()
        ),
        connect=async_creator,
    )


@pytest.mark.slow
async def test_a_run_with_lost_answers_gives_every_row_one_result(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, seed=1, faults=Faults(lost_answer=0.02), workers=50)
    async with service.serving():
        summary = await program(tmp_path, service, clock, console, jobs=200)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["output"]["n"] for line in lines] == list(range(200))
    assert (summary.jobs["succeeded"], summary.throttled, summary.lost, summary.expired) == (200, 0, 0, 0)
    assert service.paid == 200 + summary.uncertain.resubmitted
    assert (tmp_path / "errors.jsonl").read_text() == ""


@pytest.mark.slow
async def test_a_limit_that_another_process_sets_and_resets_holds_within_a_second(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, workers=50)
    path, sent = tmp_path / "ledger.db", list[int]()

    def commit(statement: str) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(statement)
            connection.commit()

    async def slow_down() -> None:
        await anyio.sleep(1)
        commit("INSERT INTO limits VALUES (1, 'run', 10, 10000000, 5, 0)")
        for seconds in (1, 19):
            await anyio.sleep(seconds)
            sent.append(service.paid)
        commit("DELETE FROM limits")

    async with service.serving(), anyio.create_task_group() as group:
        group.start_soon(slow_down)
        summary = await program(tmp_path, service, clock, console, jobs=250)
    assert sent[1] - sent[0] < 50, "executions under way, and two windows of ten"
    assert 20 < summary.wall_s < 40
    assert (summary.jobs["succeeded"], summary.throttled) == (250, 0)
    assert [line for line in console.lines if line.startswith("limits of")] == [
        "limits of ep: run=10/10:5 (orchestrator limits show)",
        "limits of ep: run as before (orchestrator limits show)",
    ]


@pytest.mark.slow
async def test_an_endpoint_that_vanishes_stops_the_run_which_then_continues(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, workers=50, seconds=lambda _: 30.0)

    async def vanish() -> None:
        await anyio.sleep(2)
        service.gate.hide(ENDPOINT)
        await anyio.sleep(120)
        service.gate.show(ENDPOINT)

    async with service.serving(), anyio.create_task_group() as group:
        group.start_soon(vanish)
        with pytest.raises(StoppedError, match="does not know this endpoint") as raised:
            await program(tmp_path, service, clock, console, jobs=300)
        assert isinstance(raised.value.summary, Summary)
        sent = raised.value.summary.jobs["succeeded"]
        assert 150 <= sent < 300
        assert raised.value.summary.jobs["queued"] == 300 - sent
        summary = await program(tmp_path, service, clock, console, jobs=300)
    assert summary.jobs["succeeded"] == service.paid == 300
    assert summary.lost == 0


@pytest.mark.parametrize(
    ("left_s", "text"),
    [
        (None, "no result can expire yet"),
        (-0.1, "results may have expired already: resume soon"),
        (0.9, "results may have expired already: resume soon"),
        (59.9, "collect again within 59 s, or results expire"),
        (1_799.0, "collect again within 29 min, or results expire"),
        (86_400.0, "collect again within 1 day, or results expire"),
    ],
)
def test_the_time_to_collect_again_is_rounded_down(left_s: float | None, text: str) -> None:
    assert safe_text(left_s) == text


async def test_answers_that_begin_with_a_byte_order_mark_are_answers(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, faults=Faults(marked_answer=1.0), workers=50)
    async with service.serving():
        summary = await program(tmp_path, service, clock, console, jobs=20)
    assert (summary.jobs["succeeded"], summary.uncertain.seen, service.paid) == (20, 0, 20)


async def test_a_failure_is_collected_whose_error_is_no_text_to_a_database_or_to_json(tmp_path: Path) -> None:
    clock, console = VirtualClock(), Silence()
    service = SimulatedService(clock, faults=Faults(strange_text=1.0, handler_error=1.0))
    async with service.serving():
        summary = await program(tmp_path, service, clock, console, jobs=3)
    assert (summary.jobs["failed"], summary.uncertain.seen, summary.lost) == (3, 0, 0)


async def test_the_end_of_a_run_tells_of_columns_that_are_null_in_every_row(tmp_path: Path) -> None:
    clock = VirtualClock()
    service = SimulatedService(clock, work=lambda *_: WorkerResult(output=b'{"text":null,"n":1}'))
    writing = OutputSettings(flatten=("output.text", "output.n"))
    request = replace(request_in(tmp_path, 2), output=tmp_path / "out.csv", writing=writing)
    async with service.serving():
        summary = await carried_out(request, service, clock, Silence())
        assert (summary.all_empty, summary.empty_columns) == (False, ("output.text",))
