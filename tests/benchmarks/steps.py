"""Steps through the ledger's group commit, each awaited by a task of its own, as the services do it."""

import time
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import msgspec

from orchestrator.clock import Clock, SystemClock
from orchestrator.core import job as transitions
from orchestrator.core.job import Job, Outcome
from orchestrator.engine.collecting.validators import Validators
from orchestrator.engine.upkeep.rechecking import Rechecker
from orchestrator.formats.rows import Row
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.commands import Action, NewValidator
from orchestrator.ledger.input_rows import packed_rows
from orchestrator.ledger.runs import Run
from orchestrator.settings import RunSettings
from orchestrator.written import schema_file
from tests.benchmarks.figures import Figure, quantile
from tests.benchmarks.runs import write_input
from tests.formats.input_files import read_rows

JOBS: Final = 10_000
LANES: Final = 2
LANE_JOBS: Final = 100
"""Together as many jobs at once as the contract lets be sent at once."""

DAY_US: Final = 86_400_000_000
SECONDS_MAX: Final = 300.0
RECHECK_MS_MAX: Final = 50.0
"""So long others may wait for the write lock while outputs are judged anew."""


def ledger(jobs: int = JOBS) -> list[Figure]:
    """Claimed in batches; accepted and completed one by one, by as many tasks as there are requests at once."""
    return anyio.run(_measure, jobs, backend_options={"use_uvloop": find_spec("uvloop") is not None})


async def _measure(jobs: int) -> list[Figure]:
    waits: list[float] = []
    clock = SystemClock()
    with TemporaryDirectory() as name, anyio.fail_after(SECONDS_MAX):
        schema = Path(name) / "schema.json"
        schema.write_text('{"type": "array"}')
        async with open_ledger(Path(name) / "ledger.db", clock=clock) as ledger, anyio.create_task_group() as group:
            await group.start(ledger.serve)
            run = await _filled(ledger, Path(name) / "input.jsonl", jobs)
            started, cpu_started = time.perf_counter(), time.process_time()
            async with anyio.create_task_group() as lanes:
                for _ in range(LANES):
                    lanes.start_soon(_lane, ledger, run, clock, waits)
            seconds, cpu_s = time.perf_counter() - started, time.process_time() - cpu_started
            recheck_ms = await _longest_ms(ledger, run, schema)
            group.cancel_scope.cancel()
    return [
        Figure(benchmark="ledger", name="group commit", value=3 * jobs / seconds, unit="steps/s"),
        Figure(benchmark="ledger", name="CPU per step", value=1000 * cpu_s / (3 * jobs), unit="ms"),
        Figure(benchmark="ledger", name="wait for a commit, median", value=1000 * quantile(waits, 0.5), unit="ms"),
        Figure(benchmark="ledger", name="wait for a commit, p99", value=1000 * quantile(waits, 0.99), unit="ms"),
        Figure(
            benchmark="ledger", name="recheck: longest transaction", value=recheck_ms, unit="ms", at_most=RECHECK_MS_MAX
        ),
    ]


async def _longest_ms(ledger: Ledger, run: Run, schema: Path) -> float:
    """The longest transaction, its way there included, of a recheck that takes every result back, to be tried again."""
    wanted = NewValidator(schema_file(str(schema)), None, False)
    settings = msgspec.structs.replace(run.settings, schema=wanted.schema)
    validators = Validators({run.id: settings}, print)
    took: list[float] = []
    apply = ledger.commands.apply

    async def timed(*given: Any, **named: Any) -> frozenset[int]:
        started = time.perf_counter()
        done = await apply(*given, **named)
        took.append(time.perf_counter() - started)
        return done

    ledger.commands.apply = timed  # type: ignore[method-assign]
    asked = await ledger.commands.ask(Action.RECHECK, run=run.id, argument=wanted)
    rechecker = Rechecker(ledger=ledger, validators=validators, settings_of={run.id: settings})
    found = await rechecker.recheck(run, settings, await ledger.commands.one(asked))
    assert found.rejected == found.again > 0
    return 1000 * max(took)


async def _filled(ledger: Ledger, path: Path, jobs: int) -> Run:
    """A run with `jobs` queued jobs."""
    write_input(path, jobs)
    run = await ledger.runs.create(
        name="steps", service_url="http://127.0.0.1", endpoint="benchmark", source=str(path), settings=RunSettings()
    )
    intake = await ledger.intakes.start(run)
    with path.open("rb") as file:
        rows = [row for row in read_rows(file, environ={}) if isinstance(row, Row)]
    assert len(rows) == jobs
    for start in range(0, jobs, 1_000):
        await ledger.intakes.add(intake, packed_rows(rows[start : start + 1_000]))
    await ledger.intakes.accept(intake)
    return run


async def _lane(ledger: Ledger, run: Run, clock: Clock, waits: list[float]) -> None:
    """Claims and finishes jobs until there are none."""
    while claims := (
        await ledger.claims.take(
            run.id, endpoint=run.endpoint_id, by_retry=False, most=LANE_JOBS, ttl_of=lambda _payload: DAY_US
        )
    ).claims:
        async with anyio.create_task_group() as task_pool:
            for claim in claims:
                task_pool.start_soon(_live, ledger, claim.job, clock, waits)


async def _live(ledger: Ledger, job: Job, clock: Clock, waits: list[float]) -> None:
    """The two steps of a job that succeeds at once."""
    started = time.perf_counter()
    accepted = transitions.accepted(job, remote_id=f"job-{job.id}", sent_at=clock.now(), at=clock.now())
    assert await ledger.step(accepted)
    between = time.perf_counter()
    outcome = Outcome(
        submission=job.submission, remote_id=f"job-{job.id}", status="COMPLETED", output=b'{"text":"done"}'
    )
    assert await ledger.step(transitions.completed(accepted.after, outcome, reason="status", at=clock.now()))
    waits += [between - started, time.perf_counter() - between]
