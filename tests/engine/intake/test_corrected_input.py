"""The same command with a corrected input: rows that were wrong do not stay in the run for ever."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.errors import InputError
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary
from tests.api.runs.test_program import Silence, carried_out, request_in
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.world import SimulatedService

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

ROWS = 30


class Person(Silence):
    """Who answers when asked."""

    def __init__(self, answer: bool) -> None:
        super().__init__()
        self.answer = answer
        self.asked: list[int] = []

    async def confirm_drop(self, _run: str, unsuccessful: int, /) -> bool:
        self.asked.append(unsuccessful)
        return self.answer


def captions_only(raw: bytes, _number: int) -> WorkerResult:
    """A worker that fails without a caption."""
    given = json.loads(raw)
    return WorkerResult(output=raw) if "caption" in given else WorkerResult(error="no caption")


class Desk:
    """Somebody who gives one command after the other."""

    def __init__(self, folder: Path, *, answer: bool = False) -> None:
        self.folder = folder
        self.clock = VirtualClock()
        self.service = SimulatedService(self.clock, work=captions_only, workers=50)
        self.console = Person(answer)
        empty_ledger(folder / "ledger.db")
        self.write([f"{n},a fox {n}" for n in range(ROWS)])

    def write(self, lines: list[str], name: str = "in.csv") -> None:
        (self.folder / name).write_text("\n".join(["sku,text", *lines, ""]))

    async def run(self, template: str, name: str = "in.csv", **changes: Any) -> Summary:
        reading = InputSettings(templates=((template, "{{ row.text }}"),), id_field=changes.pop("id_field", None))
        request = replace(
            request_in(self.folder, 1),
            source=str(self.folder / name),
            reading=reading,
            settings=RunSettings(breaker=OFF, max_attempts=1),
            **changes,
        )
        return await carried_out(request, self.service, self.clock, self.console)

    def lines(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]


@pytest.mark.parametrize("how", ["asked", pytest.param("told", marks=pytest.mark.slow)])
async def test_a_corrected_mapping_leaves_no_wrong_row_in_the_run(tmp_path: Path, how: str) -> None:
    desk = Desk(tmp_path, answer=how == "asked")
    async with desk.service.serving():
        assert (await desk.run("kaption")).jobs["failed"] == ROWS
        summary = await desk.run("caption", replace_input=how == "told")
    assert desk.console.asked == ([ROWS] if how == "asked" else [])
    assert f"in: {ROWS} jobs no longer in the input: dropped" in desk.console.lines
    assert (summary.jobs["succeeded"], summary.jobs["total"]) == (ROWS, ROWS)
    assert [line["output"]["caption"] for line in desk.lines("out.jsonl")] == [f"a fox {n}" for n in range(ROWS)]
    assert desk.lines("errors.jsonl") == []


@pytest.mark.slow
async def test_where_nobody_agrees_wrong_rows_stay_and_it_is_told_how_they_go(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.service.serving():
        await desk.run("kaption")
        summary = await desk.run("caption")
        assert (summary.jobs["failed"], summary.jobs["succeeded"]) == (ROWS, ROWS)
        told = f"in: {ROWS} jobs of the run no longer in the input: kept in the run; {ROWS} of them have not succeeded:"
        assert f"{told} --replace-input drops those" in desk.console.lines
        desk.write(["x,more"], "more.csv")
        await desk.run("caption", "more.csv")
    assert desk.console.asked == [ROWS], "another input is more of the run: nobody is asked"


async def test_a_failed_row_that_was_edited_is_tried_anew_under_its_id(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    async with desk.service.serving():
        await desk.run("kaption", id_field="sku")
        summary = await desk.run("caption", id_field="sku")
        assert desk.console.asked == []
        assert (
            f"in: {ROWS} rows with another input than before: tried anew with it, under the same ids"
            in desk.console.lines
        )
        assert (summary.jobs["succeeded"], summary.jobs["total"]) == (ROWS, ROWS)
        paid = desk.service.paid
        desk.write([f"{n},another fox {n}" for n in range(ROWS)])
        with pytest.raises(InputError) as refused:
            await desk.run("caption", id_field="sku")
        first, told = str(refused.value).splitlines()
        assert first.endswith(f"in.csv: {ROWS} problems; nothing was sent")
        assert told.startswith(
            "line 2, line 3, line 4 and 27 more: its custom_id has succeeded with another input; give"
        )
        assert desk.service.paid == paid


async def test_what_rows_carry_stands_in_results_and_errors_and_is_never_sent(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    lines = [
        {"input": {"caption": "a"}, "metadata": {"lang": "de"}},
        {"input": {"kaption": "b"}, "metadata": {"n": [1]}},
    ]
    lines.append({"input": {"caption": "c"}})
    request = replace(request_in(tmp_path, 0), settings=RunSettings(breaker=OFF, max_attempts=1))
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    async with desk.service.serving():
        await carried_out(request, desk.service, desk.clock, desk.console)
        assert [line.get("metadata") for line in desk.lines("out.jsonl")] == [{"lang": "de"}, None]
        assert [line["metadata"] for line in desk.lines("errors.jsonl")] == [{"n": [1]}]
        assert [line["output"] for line in desk.lines("out.jsonl")] == [{"caption": "a"}, {"caption": "c"}]
        flat = OutputSettings(flatten=("output.caption", "metadata.lang"))
        tables = replace(request, output=tmp_path / "out.csv", errors=tmp_path / "errors.csv", writing=flat)
        await carried_out(tables, desk.service, desk.clock, desk.console)
    header, first, second = (tmp_path / "out.csv").read_text().splitlines()
    assert header.endswith(",metadata")
    assert ",a,de," in first
    assert first.endswith(',"{""lang"":""de""}"')
    assert second.endswith(",")
    assert (tmp_path / "errors.csv").read_text().splitlines()[1].endswith(',"{""n"":[1]}"')
