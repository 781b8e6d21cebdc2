"""Steps through the ledger's group commit, each awaited by a task of its own, as the services do it."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import anyio
import msgspec

from orchestrator.clock import Clock, SystemClock
from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.job import Job, Outcome
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.commands.revalidate import Revalidator
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.commands.command_types import Action, NewValidator
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.parsers.job_parsers import parse_schema
from orchestrator.settings.run_settings import RunSettings
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


FAILS_EVERY: Final = 100
FAILED_PERCENT_MAX: Final = 3.0
FAILED_TEXT: Final = "RuntimeError: CUDA error: device-side assert triggered " + "at step 7 " * 100
"""Longer than what is kept of it, so that the figure is of the most that it can be."""


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
            await group.start(ledger.writer.serve)
            run = await filled(ledger, Path(name) / "input.jsonl", jobs)
            started, cpu_started = time.perf_counter(), time.process_time()
            async with anyio.create_task_group() as lanes:
                for _ in range(LANES):
                    lanes.start_soon(lane, ledger, run, clock, waits)
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


def failures(jobs: int = JOBS) -> list[Figure]:
    """What is kept of executions that failed, where every hundredth does: it is to be a small part of the ledger."""
    with TemporaryDirectory() as name:
        path = Path(name) / "ledger.db"
        anyio.run(_fill_with_failures, path, jobs)
        share = 100 * _share(path, ("failed_executions", "retried_kinds"))
    return [
        Figure(
            benchmark="failures", name="failed executions at 1 %: of the ledger", value=share, unit="%",
            at_most=FAILED_PERCENT_MAX,
        )
    ]  # fmt: skip


async def _fill_with_failures(path: Path, jobs: int) -> None:
    clock = SystemClock()
    with anyio.fail_after(SECONDS_MAX):
        async with open_ledger(path, clock=clock) as ledger, anyio.create_task_group() as group:
            await group.start(ledger.writer.serve)
            run = await filled(ledger, path.with_name("input.jsonl"), jobs)
            await lane(ledger, run, clock, [], fails=lambda job: job.id % FAILS_EVERY == 0 and job.attempt == 1)
            assert (await ledger.runs.counts(run=run.id))["succeeded"] == jobs
            [kind] = await ledger.reports.failed_executions.kinds(run.id)
            assert kind.n == jobs // FAILS_EVERY
            group.cancel_scope.cancel()


def _share(path: Path, tables: Sequence[str]) -> float:
    """Of the file of a ledger, once it has no gaps, the part that is there for the rows of these tables."""

    def pages() -> int:
        database.execute("VACUUM")
        return int(database.execute("PRAGMA page_count").fetchone()[0])

    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        whole = pages()
        for table in tables:
            database.execute(f"DELETE FROM {table}")
        return 1 - pages() / whole


async def _longest_ms(ledger: Ledger, run: Run, schema: Path) -> float:
    """The longest transaction, its way there included, of a recheck that takes every result back, to be tried again."""
    wanted = NewValidator(parse_schema(str(schema)), None, False)
    settings = msgspec.structs.replace(run.settings, schema=wanted.schema)
    validators = ValidationPool({run.id: settings}, print)
    took: list[float] = []
    apply = ledger.commands.apply

    async def timed(*given: Any, **named: Any) -> frozenset[int]:
        started = time.perf_counter()
        done = await apply(*given, **named)
        took.append(time.perf_counter() - started)
        return done

    ledger.commands.apply = timed  # type: ignore[method-assign]
    asked = await ledger.commands.ask(Action.RECHECK, run=run.id, argument=wanted)
    rechecker = Revalidator(ledger=ledger, validators=validators, settings_of={run.id: settings})
    found = await rechecker.recheck(run, settings, await ledger.commands.one(asked))
    assert found.rejected == found.again > 0
    return 1000 * max(took)


async def filled(ledger: Ledger, path: Path, jobs: int) -> Run:
    """A run with `jobs` queued jobs."""
    write_input(path, jobs)
    run = await ledger.runs.create(
        name="steps", service_url="http://127.0.0.1", endpoint="benchmark", source=str(path), settings=RunSettings()
    )
    intake = await ledger.runs.intakes.start(run)
    with path.open("rb") as file:
        rows = [row for row in read_rows(file, environ={}) if isinstance(row, Row)]
    assert len(rows) == jobs
    for start in range(0, jobs, 1_000):
        await ledger.runs.intakes.add(intake, packed_rows(rows[start : start + 1_000]))
    await ledger.runs.intakes.accept(intake)
    return run


async def lane(
    ledger: Ledger,
    run: Run,
    clock: Clock,
    waits: list[float],
    fails: Callable[[Job], bool] = lambda _: False,
    at_once: int = LANE_JOBS,
) -> None:
    """Claims and finishes jobs until there are none; those that are to fail are tried again."""
    while claims := (
        await ledger.jobs.claims.take(
            ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _payload: DAY_US), most=at_once
        )
    ).claims:
        async with anyio.create_task_group() as task_pool:
            for claim in claims:
                task_pool.start_soon(_fail if fails(claim.job) else live, ledger, claim.job, clock, waits)


async def live(ledger: Ledger, job: Job, clock: Clock, waits: list[float]) -> None:
    """The two steps of a job that succeeds at once."""
    started = time.perf_counter()
    accepted = transitions.accepted(job, remote_id=f"job-{job.id}", sent_at=clock.now(), at=clock.now())
    assert await ledger.writer.step(accepted)
    between = time.perf_counter()
    outcome = Outcome(
        submission=job.submission, remote_id=f"job-{job.id}", status="COMPLETED", output=b'{"text":"done"}'
    )
    assert await ledger.writer.step(transitions.completed(accepted.after, outcome, reason="status", at=clock.now()))
    waits += [between - started, time.perf_counter() - between]


async def _fail(ledger: Ledger, job: Job, clock: Clock, _waits: list[float]) -> None:
    """A job whose execution fails, and is tried again at once."""
    accepted = transitions.accepted(job, remote_id=f"job-{job.id}", sent_at=clock.now(), at=clock.now())
    assert await ledger.writer.step(accepted)
    said = Outcome(
        submission=job.submission, remote_id=f"job-{job.id}", status="FAILED", message=FAILED_TEXT, execution_ms=100
    )
    now = clock.now()
    again = transitions.retried(
        accepted.after,
        FailureClass.FAILED,
        due_at=now,
        retry_until=None,
        reason="FAILED",
        at=now,
        previous_outcome=said,
    )
    assert await ledger.writer.step(again)
