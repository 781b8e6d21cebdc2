"""JSON that is nested deeply: whether it can be used is decided once, when it comes, and never again."""

import io
import json
from pathlib import Path

import pytest

from orchestrator.api.outcomes.result_files import write_files
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import Process, process
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.factories import S
from tests.formats.input_files import read_rows

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

DEPTHS = (100, *range(860, 1_000, 10), 1_000, 100_000)
"""Python's limit is a depth of a thousand, less what is on the stack already: some of these are just within it."""

DEEPER = 60
"""So many calls more are on the stack when the files are written than when the outputs were collected."""


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def the_same(asked: Asked) -> Reply:
    depth = int(asked.remote_id.removeprefix("d-"))
    return Reply(body=b'{"id":"%b","status":"COMPLETED","output":%b}' % (asked.remote_id.encode(), nested(depth)))


async def deeper(p: Process, folder: Path, calls: int = DEEPER) -> None:
    """Writes the files."""
    if calls:
        await deeper(p, folder, calls - 1)
    else:
        await write_files(p.ledger, p.run.id, folder / "out", folder / "err")


@pytest.mark.slow
async def test_an_output_that_could_be_collected_can_be_written_and_others_keep_nothing_up(tmp_path: Path) -> None:
    lines = [b'{"custom_id":"d-%d","n":%d}' % (depth, depth) for depth in DEPTHS]
    rows = [row for row in read_rows(io.BytesIO(b"\n".join(lines)), environ={}) if isinstance(row, Row)]
    transport = Scripted(
        run=lambda asked: says("IN_QUEUE", f"d-{json.loads(asked.body)['input']['n']}"), status=the_same
    )
    settings = RunSettings(max_attempts=1, retention_us=300 * S)  # what cannot be read is asked for until it is gone
    async with process(tmp_path / "db", transport, jobs=rows, settings=settings) as p:
        await p.begin()
        await p.finish()
        await deeper(p, tmp_path)
        kept = {failure.custom_id: failure.output for failure in await p.failures()}

    written = (tmp_path / "out").read_bytes().splitlines()
    depths = [line.count(b"[") for line in written]
    assert depths == list(DEPTHS[: len(depths)])
    assert 900 < depths[-1] < 1_000
    assert all(b'"output":%b,"attempts"' % nested(depth) in line for depth, line in zip(depths, written, strict=True))
    failed = [json.loads(line) for line in (tmp_path / "err").read_bytes().splitlines()]
    assert [row["custom_id"] for row in failed] == [f"d-{depth}" for depth in DEPTHS[len(depths) :]]
    assert {row["error"]["class"] for row in failed} == {"invalid_output"}
    assert all(nested(depth) in (kept[f"d-{depth}"] or b"") for depth in DEPTHS[len(depths) :])


async def test_an_input_that_was_taken_in_is_sent_as_it_came(tmp_path: Path) -> None:
    lines = [b'{"custom_id":"d-%d","nested":%b}' % (depth, nested(depth)) for depth in DEPTHS]
    read = list(read_rows(io.BytesIO(b"\n".join(lines)), environ={}))
    taken = [row for row in read if isinstance(row, Row)]
    refused = [row for row in read if isinstance(row, RowProblem)]
    assert [row.line for row in taken] + [row.line for row in refused] == list(range(1, len(DEPTHS) + 1))
    assert {row.text for row in refused} == {"not usable: nested too deeply"}

    transport = Scripted(run=lambda asked: says("IN_QUEUE", "d-1"), status=says("COMPLETED", "d-1"))
    async with process(tmp_path / "db", transport, jobs=taken) as p:
        await p.begin()
        await p.finish()

    sent = {asked.body for asked in transport.of("run")}
    assert len(sent) == len(taken)
    assert all(any(row.input in body for body in sent) for row in taken)
