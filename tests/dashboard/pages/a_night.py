"""Ledgers with all that pages of runs show, made by the engine on virtual time: made once, and copied for each test."""

import json
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Final

import anyio

from orchestrator.core.samples.buckets import Histogram
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Ledger
from orchestrator.ledger.samples.samples import EndpointSample, OperationUse, RunSample
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.dashboard.harness import Dashboard, dashboard
from tests.engine.process import process
from tests.factories import a_row
from tests.ledger.ledgers import obeyed, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.long_work import LongWork
from tests.simulation.world import SimulatedService

NIGHT: Final = 1
"""The run whose jobs succeed and fail."""

TRAINING: Final = 2
"""The run of resumable jobs, which goes on."""

JOBS: Final = 80

SECRET: Final = "a picture of Bob"
"""In each input, and in each output."""

TRACE: Final = 'Traceback (most recent call last):\n  File "/app/h.py", line 17, in run\n    load()\nMemoryError: CUDA'
HOSTILE: Final = {
    11: "<script>alert(1)</script>",
    12: "\u202egpj.exe",
    13: "x" * 3_000,
    14: "null\x00byte",
    15: 'quote" and \\ back',
}
"""What some jobs are called, by their numbers."""


def night_rows() -> list[Row]:
    return [
        a_row(n, HOSTILE.get(n, f"n-{n:03}"), payload=json.dumps({"n": n, "prompt": SECRET}).encode())
        for n in range(1, JOBS + 1)
    ]


def work(raw: bytes, tries: int) -> WorkerResult:
    """One in ten fails for want of memory, one for its seed, and one the first time only."""
    number = json.loads(raw)["n"]
    match number % 10:
        case 3:
            told = {"error_type": "<class 'MemoryError'>", "error_message": f"CUDA out of memory: {number} MiB"}
            return WorkerResult(error=json.dumps({**told, "error_traceback": TRACE}))
        case 5:
            return WorkerResult(error=f"ValueError: <i>the seed</i> of {number} is \u202eodd, in {SECRET}")
        case 7 if tries == 1:
            return WorkerResult(error=f"ConnectionError: no answer from 10.0.0.{number}")
        case _:
            return WorkerResult(output=json.dumps({"caption": SECRET, "n": number}).encode())


async def _made(folder: Path) -> bytes:
    """The ledger of a night that is over, and of a training that is under way."""
    # Whatever has run on this loop before, this night begins at the same moment.
    clock = VirtualClock(epoch_at=EPOCH_AT - round(anyio.current_time() * SECOND_US))
    path = folder / "ledger.db"
    service = SimulatedService(
        clock, work=work, workers=10, seconds=lambda _: 4.0, seed=4, faults=Faults(lost_answer=0.05)
    )
    settings = RunSettings(max_attempts=2, price_per_second=0.01, budget=5.0, notify="https://hooks.example/T0/secret")
    async with (
        service.serving(),
        process(path, service.transport(), clock=clock, jobs=night_rows(), settings=settings, name="night-2") as p,
    ):
        await p.begin()
        await p.finish()
        await anyio.sleep(60)
    long = SimulatedService(
        clock, workers=2, long_work=LongWork(work_s=4_000, report_every_s=60, checkpoint_every_s=300)
    )
    week = Policy(execution_timeout_ms=7 * 86_400_000, ttl_ms=7 * 86_400_000)
    async with (
        long.serving(),
        process(
            path,
            long.transport(),
            clock=clock,
            jobs=3,
            settings=RunSettings(resumable=True, policy=week),
            name="training",
        ) as p,
    ):
        await p.begin()
        await anyio.sleep(1_200)
        await obeyed(p.ledger, "pause", run=TRAINING)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM run_samples WHERE run_id = ?", (NIGHT,))
        connection.execute("DELETE FROM endpoint_samples")
        connection.commit()
    async with opened(path, clock=clock) as ledger:
        await _sampled(ledger, EPOCH_AT)
    return path.read_bytes()


async def _sampled(ledger: Ledger, since: int) -> None:
    """How the night stood, each ten seconds from then on, with a pause, a gap and a change of limits: in the place of
    what the engine has written down, of which no test could say so much.
    """

    async def block(transaction: Transaction) -> None:
        for number in (0, 1, 2, 3, 4, 5, 9, 10):
            at = since + number * 10 * SECOND_US
            is_paused = 2 <= number < 5
            run = RunSample(
                counts={"succeeded": 3 * number, "failed": number, "queued": 80 - 4 * number, "outstanding": 8},
                hold="paused" if is_paused else "",
                hold_by="ann" if is_paused else "",
                spent=0.1 * number,
                submissions={"accepted": 5 * number},
                ends={"succeeded": 3 * number, "failed": number},
                queue=Histogram((0, 0, number), 1.0 * number),
                execution=Histogram((0, 0, 0, 0, 4 * number), 9.0 * number),
            )
            operation = OperationUse(allowance=1_000 if number < 10 else 500, used=9, window_s=10.0)
            await ledger.samples.runs.write(transaction, 10, at, {NIGHT: run})
            await ledger.samples.endpoints.write(
                transaction, 10, at, {1: EndpointSample(operations={"run": operation})}
            )

    await ledger.writer.run(block)


_KEPT: list[bytes] = []


async def night_ledger(folder: Path) -> Path:
    """The ledger of that night, in `folder`."""
    if not _KEPT:
        with tempfile.TemporaryDirectory() as made:
            _KEPT.append(await _made(Path(made)))
    path = folder / "ledger.db"
    path.write_bytes(_KEPT[0])
    return path


@asynccontextmanager
async def a_night(folder: Path) -> AsyncIterator[Dashboard]:
    """Its dashboard, some minutes after the night."""
    path, clock = await night_ledger(folder), VirtualClock()
    clock.jump(30 * 60 * SECOND_US)
    async with dashboard(path, clock=clock) as site:
        yield site
