"""Whole runs of the program against the stand-in service: what a job costs, and how much of an allowance is used."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from statistics import median
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
LANES_ROUNDS: Final = 3

CPU_MS_MAX: Final = {"webhook": 0.65, "polling": 0.85}
JOBS_PER_S_MIN: Final = 1_000
USE_PERCENT_MIN: Final = 99.0

SECONDS_MAX: Final = 300.0
"""A run that takes longer is killed, and its benchmark fails."""

UNLIMITED: Final = ("--limit", "run=1000000/10:1000", "--limit", "status=1000000/10:1000")

LANE_BY_WEBHOOK: Final = "by /run with webhooks"
LANES_COMPARED: Final[Mapping[str, tuple[str, ...]]] = {
    LANE_BY_WEBHOOK: (*UNLIMITED, "--listen", "127.0.0.1:0"),
    "by /runsync alone": ("--via", "sync", "--limit", "runsync=1000000/10:1000"),
    "by /runsync with webhooks": ("--via", "sync", "--limit", "runsync=1000000/10:1000", "--listen", "127.0.0.1:0"),
}


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


def lanes(jobs: int = LANES_JOBS, cost_jobs: int = JOBS, rounds: int = LANES_ROUNDS) -> list[Figure]:
    """Short jobs by both lanes at the contract's limits; and what a job costs by `/runsync`, beside one by `/run`."""
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
    return [
        Figure(
            benchmark="lanes", name="by both lanes, 0.5 s each", value=per_s, unit="jobs/s", at_least=BOTH_PER_S_MIN
        ),
        Figure(benchmark="lanes", name="of them by /runsync", value=100 * seen.held / jobs, unit="%"),
        Figure(benchmark="lanes", name="sent twice", value=seen.runs + seen.held - jobs, unit="jobs", at_most=0),
        Figure(benchmark="lanes", name="answered 429", value=seen.throttled, unit="requests", at_most=0),
        *lane_costs(cost_jobs, rounds),
    ]


def lane_costs(jobs: int, rounds: int) -> list[Figure]:
    """CPU of a job by `/run` with webhooks, and by `/runsync` with them and without, each once a round: what the machine
    does beside hits all of them. The middle one of the rounds counts.
    """
    took: dict[str, list[float]] = {name: [] for name in LANES_COMPARED}
    for _ in range(rounds):
        for name, flags in LANES_COMPARED.items():
            with TemporaryDirectory() as folder:
                took[name].append(_cpu_ms(Path(folder), jobs, *flags))
    by_webhook = took[LANE_BY_WEBHOOK]
    return [
        Figure(
            benchmark="lanes",
            name=f"CPU per job, {name}",
            value=median(each),
            unit="ms",
            at_most=None if name == LANE_BY_WEBHOOK else CPU_MS_MAX["webhook"],
        )
        for name, each in took.items()
    ] + [
        Figure(
            benchmark="lanes",
            name=f"CPU per job, {name}: of that {LANE_BY_WEBHOOK}, by rounds",
            value=100 * median(own / other for own, other in zip(each, by_webhook, strict=True)),
            unit="%",
        )
        for name, each in took.items()
        if name != LANE_BY_WEBHOOK
    ]


def _cpu_ms(folder: Path, jobs: int, *flags: str) -> float:
    """CPU of each of so many jobs, all of which must succeed."""
    with stand_in(Behaviour(webhooks=True)) as service:
        write_input(folder / "input.jsonl", jobs)
        ended = _ended_at(service.url, folder, *flags, "--output", "results.jsonl")
        seen = service.stop()
    assert seen.runs + seen.held == jobs, seen
    return 1000 * ended.cpu_s / jobs


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
