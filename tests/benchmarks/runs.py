"""Whole runs of the program against the stand-in service: what a job costs, and how much of an allowance is used."""

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Operation
from orchestrator.units import SECOND_US
from orchestrator.views.status import Summary
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import Verdict, orchestrator, stand_in
from tests.benchmarks.stand_in import Behaviour, Observed

JOBS: Final = 10_000
ALLOWANCE_JOBS: Final = 5_000
LANES_JOBS: Final = 20_000
BOTH_PER_S_MIN: Final = 285

CPU_MS_MAX: Final = {"webhook": 0.65, "polling": 0.85}
JOBS_PER_S_MIN: Final = 1_000
USE_PERCENT_MIN: Final = 99.0

SECONDS_MAX: Final = 300.0
"""A run that takes longer is killed, and its benchmark fails."""

UNLIMITED: Final = ("--limit", "run=1000000/10:1000", "--limit", "status=1000000/10:1000")


def webhook(jobs: int = JOBS) -> list[Figure]:
    """Each job is sent once, and its result comes by webhook."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        ended, seen = _run(folder, jobs, Behaviour(webhooks=True), *UNLIMITED, "--listen", "127.0.0.1:0")
        assert seen.webhooks >= jobs, seen
        return [
            *_cost("webhook", jobs, ended, folder),
            Figure(benchmark="webhook", name="webhook answered, median", value=seen.webhook_p50_ms or 0, unit="ms"),
            Figure(benchmark="webhook", name="webhook answered, p99", value=seen.webhook_p99_ms or 0, unit="ms"),
        ]


def polling(jobs: int = JOBS) -> list[Figure]:
    """Each job is sent once and asked for once."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        ended, _ = _run(folder, jobs, Behaviour(), *UNLIMITED)
        return _cost("polling", jobs, ended, folder)


def allowance(jobs: int = ALLOWANCE_JOBS) -> list[Figure]:
    """The contract's limits, counted exactly: how much of them is used, without a single 429."""
    run, status = CONTRACT_LIMITS[Operation.RUN], CONTRACT_LIMITS[Operation.STATUS]
    behaviour = Behaviour(answer_ms=(5.0, 20.0), limits=(run.requests, status.requests, run.window_s))
    with TemporaryDirectory() as name:
        _, seen = _run(Path(name), jobs, behaviour, "--breaker", "off")  # else few go before the first has succeeded
    assert seen.first_run_s is not None
    assert seen.last_run_s is not None
    per_s = (seen.runs - 1) / (seen.last_run_s - seen.first_run_s)
    return [
        Figure(
            benchmark="allowance",
            name="use of 1000 /run in 10 s",
            value=100 * per_s / (run.requests / run.window_s),
            unit="%",
            at_least=USE_PERCENT_MIN,
        ),
        Figure(benchmark="allowance", name="answered 429", value=seen.throttled, unit="requests", at_most=0),
    ]


def lanes(jobs: int = LANES_JOBS, cost_jobs: int = JOBS) -> list[Figure]:
    """Short jobs by both lanes at the contract's limits; and what a job costs by `/runsync` alone."""
    run, sync = CONTRACT_LIMITS[Operation.RUN], CONTRACT_LIMITS[Operation.RUNSYNC]
    behaviour = Behaviour(execution_s=0.5, limits=(run.requests, sync.requests, run.window_s))
    with TemporaryDirectory() as name:
        folder = Path(name)
        with stand_in(behaviour) as service:
            write_input(folder / "input.jsonl", jobs)
            flags = ("--via", "both", "--breaker", "off", "--output", "results.jsonl")
            summary = msgspec.json.decode(_ended_at(service.url, folder, *flags).stdout, type=Summary)
            seen = service.stop()
        per_s = ended_per_s(folder / "ledger.db")
    assert summary.jobs["succeeded"] == jobs, summary
    with TemporaryDirectory() as name:
        folder, limit = Path(name), ("--limit", "runsync=1000000/10:1000")
        with stand_in(Behaviour()) as service:
            write_input(folder / "input.jsonl", cost_jobs)
            ended = _ended_at(service.url, folder, "--via", "sync", *limit, "--output", "results.jsonl")
            held = service.stop().held
    assert held == cost_jobs
    return [
        Figure(
            benchmark="lanes", name="by both lanes, 0.5 s each", value=per_s, unit="jobs/s", at_least=BOTH_PER_S_MIN
        ),
        Figure(benchmark="lanes", name="of them by /runsync", value=100 * seen.held / jobs, unit="%"),
        Figure(benchmark="lanes", name="sent twice", value=seen.runs + seen.held - jobs, unit="jobs", at_most=0),
        Figure(benchmark="lanes", name="answered 429", value=seen.throttled, unit="requests", at_most=0),
        Figure(
            benchmark="lanes",
            name="CPU per job, by /runsync alone",
            value=1000 * ended.cpu_s / cost_jobs,
            unit="ms",
            at_most=CPU_MS_MAX["webhook"],
        ),
    ]


def _run(folder: Path, jobs: int, behaviour: Behaviour, *flags: str) -> tuple[Verdict, Observed]:
    """One run of `jobs` jobs against a service of its own."""
    with stand_in(behaviour) as service:
        ended = run_at(service.url, folder, jobs, *flags)
        return ended, service.stop()


def run_at(url: str, folder: Path, jobs: int, *flags: str) -> Verdict:
    """One run of `jobs` jobs from start to exit, all of which must succeed at the first try."""
    write_input(folder / "input.jsonl", jobs)
    ended = _ended_at(url, folder, "--output", "results.jsonl", *flags)
    summary = msgspec.json.decode(ended.stdout, type=Summary)
    assert summary.jobs["succeeded"] == summary.requests["run"] == jobs, summary
    with (folder / "results.jsonl").open("rb") as results:
        assert sum(1 for _ in results) == jobs
    return ended


def _ended_at(url: str, folder: Path, *flags: str) -> Verdict:
    """A run of the input in `folder`, from start to exit."""
    ended = orchestrator(["run", "input.jsonl", *run_flags(url), *flags], folder=folder, seconds_max=SECONDS_MAX)
    assert ended.exit_code == 0, ended.stderr
    return ended


def run_flags(url: str) -> list[str]:
    """What every benchmark's `run` is told."""
    return ["--endpoint", "benchmark", "--serverless-url", url, "--ledger", "ledger.db", "--json", "--quiet"]


def write_input(path: Path, rows: int) -> None:
    """A file of `rows` small inputs."""
    with path.open("w") as file:
        for row in range(rows):
            file.write(f'{{"custom_id":"row-{row}","input":{{"prompt":"describe picture {row} in a few words"}}}}\n')


def _cost(benchmark: str, jobs: int, ended: Verdict, folder: Path) -> list[Figure]:
    return [
        Figure(
            benchmark=benchmark,
            name="CPU per job",
            value=1000 * ended.cpu_s / jobs,
            unit="ms",
            at_most=CPU_MS_MAX[benchmark],
        ),
        Figure(
            benchmark=benchmark,
            name="first sent to last collected",
            value=jobs / seconds_at_work(folder / "ledger.db"),
            unit="jobs/s",
            at_least=JOBS_PER_S_MIN,
        ),
        Figure(benchmark=benchmark, name="start to exit", value=jobs / ended.wall_s, unit="jobs/s"),
        Figure(benchmark=benchmark, name="peak memory", value=ended.peak_mb, unit="MB"),
    ]


def ended_per_s(ledger: Path) -> float:
    """Jobs that ended in a second, in the minute that begins five seconds after the first request, or while there were
    any.
    """
    with closing(sqlite3.connect(ledger)) as connection:
        first = int(connection.execute("SELECT min(sent_at) FROM submissions").fetchone()[0])
        since, until = first + 5 * SECOND_US, first + 65 * SECOND_US
        last = int(connection.execute("SELECT max(ended_at) FROM jobs").fetchone()[0])
        if last < until:
            since, until = first, last + 1
        query = "SELECT count(*) FROM jobs WHERE ended_at >= ? AND ended_at < ?"
        ended = int(connection.execute(query, (since, until)).fetchone()[0])
    return ended * SECOND_US / (until - since)


def seconds_at_work(ledger: Path) -> float:
    """From the first request to the last durable result."""
    with closing(sqlite3.connect(ledger)) as connection:
        (first,) = connection.execute("SELECT min(sent_at) FROM submissions").fetchone()
        (last,) = connection.execute("SELECT max(ended_at) FROM jobs").fetchone()
    return float(last - first) / 1e6
