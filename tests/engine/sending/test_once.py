"""`--once` and `--reuse`: rows with the same input, within a run and of another one, are not paid for again."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.jobs.result_reuse import Reuse
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import HOUR_US
from orchestrator.views.status import Summary
from tests.api.runs.test_program import Silence, carried_out, request_in
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

INPUTS = [{"n": n % 3} for n in range(30)]


class Desk:
    """Somebody who gives one command after the other."""

    def __init__(self, folder: Path, failing: set[int]) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.worked: list[int] = []
        self.failing = failing
        self.service = SimulatedService(self.clock, work=self.work, workers=50)
        empty_ledger(folder / "ledger.db")

    def work(self, raw: bytes, _number: int) -> WorkerResult:
        n = json.loads(raw)["n"]
        self.worked.append(n)
        return WorkerResult(error="no") if n in self.failing else WorkerResult(output=raw)

    def write(self, source: Path) -> None:
        source.write_text("".join(json.dumps({"input": each}) + "\n" for each in INPUTS))

    async def run(self, name: str, **settings: Any) -> tuple[Summary, list[dict[str, Any]]]:
        request = replace(
            request_in(self.folder, 0), name=name, settings=RunSettings(breaker=OFF, max_attempts=1, **settings),
            output=self.folder / f"{name}.out", errors=self.folder / f"{name}.errors",
        )  # fmt: skip
        self.write(Path(str(request.source)))
        summary = await carried_out(request, self.service, self.clock, Silence())
        return summary, self.lines(self.folder / f"{name}.out")

    def lines(self, path: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in path.read_text().splitlines()]


async def test_rows_with_the_same_input_are_sent_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path, set())
    async with desk.service.serving():
        summary, lines = await desk.run("once", once=True)
        assert sorted(desk.worked) == [0, 1, 2]
        assert (summary.jobs["succeeded"], desk.service.paid) == (30, 3)
        assert [line["output"] for line in lines] == INPUTS
        assert sum("reused" in line for line in lines) == 27
        await desk.run("other", once=True)
        assert desk.service.paid == 6, "what another run has sent is another matter"
        await desk.run("plain")
    assert desk.service.paid == 36


async def test_where_the_one_that_is_sent_fails_the_next_is_tried(tmp_path: Path) -> None:
    desk = Desk(tmp_path, {1})
    async with desk.service.serving():
        summary, _ = await desk.run("once", once=True)
    assert (summary.jobs["succeeded"], summary.jobs["failed"]) == (20, 10)
    assert sorted(desk.worked) == [0, *[1] * 10, 2]


async def test_a_run_takes_the_results_of_another_one_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, set())
    async with desk.service.serving():
        await desk.run("first", reuse=Reuse(young_us=HOUR_US), once=True)
        assert desk.service.paid == 3
        summary, lines = await desk.run("second", reuse=Reuse(young_us=HOUR_US))
    assert (summary.jobs["succeeded"], desk.service.paid) == (30, 3)
    assert all(line["reused"]["run"] == "first" for line in lines)
