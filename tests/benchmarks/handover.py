"""How fast rows go from one stage to the next: the relay alone, on a ledger in which so many rows have just ended."""

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from msgspec.structs import replace

from orchestrator.clock import SystemClock
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.core.service.row_variables import NO_VARIABLES
from orchestrator.core.text.durations import Policy
from orchestrator.engine.flows.row_handover import RowHandover
from orchestrator.engine.flows.row_mapper import RowMapper
from orchestrator.engine.ports.dependencies import is_folder
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import BODY_BYTES_MAX_DEFAULT
from tests.benchmarks.figures import Figure
from tests.engine.rows import empty_ledger, rows
from tests.ledger.pipelines import applied

ROWS: Final = 50_000
ROWS_A_SECOND_MIN: Final = 10_000
SECONDS_MAX: Final = 600.0

STEP: Final = 'def to_next(row):\n    return {"input": {"text": row["output"]["text"], "n": row["input"]["n"]}}\n'
OUTPUT: Final = b'{"text":"what somebody sees in a picture, in a sentence or two of some length"}'

_ENDED: Final = (
    "UPDATE jobs SET state = 'succeeded', ended_at = 1 WHERE run_id = ?1",
    "INSERT INTO outcomes (job_id, output) SELECT id, ?2 FROM jobs WHERE run_id = ?1",
    "UPDATE counts SET name = 'succeeded' WHERE run_id = ?1 AND name = 'queued'",
)


def handed_over(number: int = ROWS) -> list[Figure]:
    """Rows as they are, and through a step. What is promised goes by CPU time, whatever else the machine does."""
    found = []
    for name, step in (("as they are", None), ("through a step", "steps.py:to_next")):
        wall_s, cpu_s = asyncio.run(_measured(number, step))
        what = f"{number:,} rows handed over {name}"
        found += [_figure(what, number / wall_s, None), _figure(f"{what}, by CPU time", number / cpu_s)]
    return found


def _figure(name: str, value: float, at_least: float | None = ROWS_A_SECOND_MIN) -> Figure:
    return Figure(benchmark="pipelines", name=name, value=value, unit="rows/s", at_least=at_least)


class Files:
    """What makes the rows of a stage, without a process around it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def row_maker(self, pipeline: Pipeline, stage: Stage) -> RowMapper:
        return RowMapper(
            stage=stage,
            folder=Path(pipeline.folder),
            is_folder=is_folder,
            variables=NO_VARIABLES,
            policy=Policy(),
            webhook_bytes=0,
            body_bytes_max=BODY_BYTES_MAX_DEFAULT,
            is_resumable=False,
            now=self._ledger.now,
        )


async def _measured(number: int, step: str | None) -> tuple[float, float]:
    with TemporaryDirectory() as name, anyio.fail_after(SECONDS_MAX):
        folder = Path(name)
        (folder / "steps.py").write_text(STEP)
        path = empty_ledger(folder / "ledger.db")
        async with open_ledger(path, clock=SystemClock()) as ledger, anyio.create_task_group() as group:
            await group.start(ledger.writer.serve)
            to_run = await owed_to(ledger, folder, number, step)
            relay = RowHandover(ledger=ledger, files=Files(ledger), session_of=lambda _: None, warn=print)
            began, cpu_began = time.perf_counter(), time.process_time()
            await group.start(relay.serve)
            while await ledger.flows.handovers.is_owed(to_run.id):  # noqa: ASYNC110  nothing tells of a run without a session
                await anyio.sleep(0.02)
            took = time.perf_counter() - began, time.process_time() - cpu_began
            assert sum((await ledger.runs.counts(to_run.id)).values()) == number
            group.cancel_scope.cancel()
    return took


async def owed_to(ledger: Ledger, folder: Path, number: int, step: str | None) -> Run:
    """A run to which so many rows are owed, all of which have just ended."""
    stages = (
        Stage(name="one", from_=("input",), settings={"endpoint": ("ep",)}),
        Stage(name="two", from_=("one",), step=step, settings={"endpoint": ("ep2",)}),
    )
    now = ledger.now()
    of = await applied(ledger, Pipeline(name="p", folder=str(folder), input="in.jsonl", stages=stages), now=now)
    [flow_name] = await ledger.flows.add(of.id, of.name, of.definition, [now], FlowKind.TRIGGERED)
    flow = await ledger.flows.named(flow_name)
    assert flow is not None
    first, second = [
        await ledger.runs.create(
            name=stage.name, service_url="http://127.0.0.1", endpoint=stage.name, source="-", settings=RunSettings()
        )
        for stage in stages
    ]
    intake = await ledger.runs.intakes.start(first)
    given = rows(number)
    for start in range(0, number, 1_000):
        await ledger.runs.intakes.add(
            intake, packed_rows(replace(row, custom_id=f"row-{row.line}") for row in given[start : start + 1_000])
        )
    await ledger.runs.intakes.accept(intake)
    with closing(sqlite3.connect(folder / "ledger.db")) as connection, connection:
        for statement in _ENDED:
            connection.execute(statement, (first.id, OUTPUT)[: statement.count("?")])
    await ledger.flows.handovers.follow(flow.id, "two", sources=[first], to_run=second)
    return second
