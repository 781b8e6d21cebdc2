"""What a result says of the row that it is of."""

import csv
import itertools
import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api.python.results import Job
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.errors import OrchestratorError, UsageError
from tests.api.desk import desk, numbers
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def test_a_result_has_its_input_and_its_place_in_the_input(tmp_path: Path) -> None:
    inputs: list[Any] = [{"n": 5, "text": "words " * 1_000}, Job({"n": 6}, custom_id="six"), {"n": 7}]
    given: list[Any] = [inputs[0], {"n": 6}, {"n": 7}]
    seconds = itertools.cycle([9.0, 1.0, 5.0])
    async with desk(tmp_path, seconds=lambda _: next(seconds)) as d, d.orchestrator() as orc:
        run = await orc.submit(inputs, endpoint=ENDPOINT, name="captions")
        found = [result async for result in run.results()]
        assert [(each.index, each.input["n"]) for each in found] == [(1, 6), (2, 7), (0, 5)]
        assert all(each.input == given[each.index] for each in found)
        assert [each.index async for each in run.results(order="input")] == [0, 1, 2]
        assert [each.input async for each in run.results(order="input")] == given
        assert pickle.loads(pickle.dumps(found[0])).input == found[0].input

        with pytest.raises(OrchestratorError, match="six: its input is damaged in the ledger"):
            print(replace(found[0], _stored_input=b"no zlib", _packed_input=1).input)

        *_, last = [each async for each in (await orc.append("captions", numbers(1))).results(order="input")]
        assert (last.index, last.input) == (3, {"n": 0})
        mapped = [(each.index, each.input) async for each in orc.map(ENDPOINT, given, name="again", order="input")]
        assert mapped == list(enumerate(given))


async def test_the_place_in_a_file_is_that_of_its_line(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n')
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit(tmp_path / "prompts.jsonl", endpoint=ENDPOINT)
        assert [(each.index, each.input["n"]) async for each in run.results(order="input")] == [(0, 1), (2, 2)]


async def test_what_has_failed_has_its_input_too(tmp_path: Path) -> None:
    def work(raw: bytes, _number: int) -> Answer:
        return Answer(error="odd") if json.loads(raw)["n"] % 2 else Answer(output=raw)

    async with desk(tmp_path, work=work) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(4), endpoint=ENDPOINT, name="captions", max_attempts=1)
        await run.wait()
        failed = await run.failures(cluster=False)
        assert [(each.index, each.input) for each in failed] == [(1, {"n": 1}), (3, {"n": 3})]


async def test_results_are_exported_for_a_spreadsheet(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit([{"v": "=1+1"}, {"v": "-1.5"}], endpoint=ENDPOINT, name="captions")
        await run.wait()
        await run.export(tmp_path / "o.csv", flatten="output.v", csv_safe=True)
        assert [row["output.v"] for row in csv.DictReader((tmp_path / "o.csv").read_text().splitlines())] == [
            "'=1+1",
            "-1.5",
        ]


async def test_members_of_results_become_files_as_they_are_exported(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit([{"v": "aGk="}], endpoint=ENDPOINT, name="captions")
        await run.wait()
        with pytest.raises(UsageError, match="names no member of outputs"):
            await run.export(tmp_path / "o.jsonl", save=["v=out/{custom_id}"])
        await run.export(tmp_path / "o.jsonl", save={"output.v": f"{tmp_path}/out/{{custom_id}}.txt"})
        [result] = [each async for each in run.results()]
        assert (tmp_path / "out" / f"{result.custom_id}.txt").read_bytes() == b"hi"
        assert result.output["v"]["file"] in (tmp_path / "o.jsonl").read_text()
