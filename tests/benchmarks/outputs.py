"""Large outputs: how much memory it takes to collect them, to write them out, to print them, and to verify them."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from orchestrator.views.status import Summary
from tests.benchmarks.audit import finished_ledger
from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import Verdict, orchestrator, stand_in
from tests.benchmarks.runs import run_flags, write_input
from tests.benchmarks.stand_in import Behaviour

JOBS: Final = 500
"""Some 900 MB of outputs; ten thousand are 18 GB, and need twice as much of the disk."""

CUT_JOBS: Final = 150
CUT_BYTES: Final = 6_000_000
CUT_SHARE: Final = 0.6
CUT_MORE_MB_MAX: Final = 30.0

SIZES: Final = (100_000, 8_000_000)
PEAK_MB_MAX: Final = 250.0
SECONDS_MAX: Final = 7200.0


def outputs(jobs: int = JOBS) -> list[Figure]:
    """A run whose outputs have 100 KB to 8 MB, and what is done with its ledger afterwards."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", jobs)
        with stand_in(Behaviour(output_bytes=SIZES)) as service:
            ended = _orchestrator(folder, "run", "input.jsonl", *run_flags(service.url), "--output", "results.jsonl")
        assert msgspec.json.decode(ended.stdout, type=Summary).jobs["succeeded"] == jobs
        return [
            Figure(benchmark="outputs", name="bytes", value=_size_mb(folder / "results.jsonl"), unit="MB"),
            Figure(benchmark="outputs", name="run: time", value=ended.wall_s, unit="s"),
            _peak("run", ended),
            *_looking(folder),
        ]


def cut(jobs: int = CUT_JOBS, output_bytes: int = CUT_BYTES) -> list[Figure]:
    """What it takes to collect large outputs whose answers are mostly cut, beside what it takes where none is."""
    whole = _collected(jobs, output_bytes, cut_share=0.0)
    spoilt = _collected(jobs, output_bytes, cut_share=CUT_SHARE)
    more = spoilt.peak_mb - whole.peak_mb
    return [
        Figure(benchmark="cut", name="peak memory, none cut", value=whole.peak_mb, unit="MB"),
        Figure(benchmark="cut", name=f"peak memory, {CUT_SHARE:.0%} cut", value=spoilt.peak_mb, unit="MB"),
        Figure(benchmark="cut", name="more memory", value=more, unit="MB", at_most=CUT_MORE_MB_MAX),
    ]


def _collected(jobs: int, output_bytes: int, *, cut_share: float) -> Verdict:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", jobs)
        behaviour = Behaviour(output_bytes=(output_bytes, output_bytes), cut_share=cut_share)
        with stand_in(behaviour) as service:
            ended = _orchestrator(folder, "run", "input.jsonl", *run_flags(service.url))
            seen = service.stop()
        assert msgspec.json.decode(ended.stdout, type=Summary).jobs["succeeded"] == jobs
        assert (seen.cut > 0) is (cut_share > 0), seen
        return ended


def large_ledger(jobs: int, output_bytes: int) -> list[Figure]:
    """The same without the collecting: a ledger that has such outputs already."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        finished_ledger(folder, jobs, b'"' + b"x" * output_bytes + b'"')
        resume = ("resume", "input", "--ledger", "ledger.db", "--output", "results.jsonl")
        return [_peak("resume", _orchestrator(folder, *resume)), *_looking(folder)]


def _looking(folder: Path) -> list[Figure]:
    """`results` and `verify` of the run `input`, whose `results.jsonl` is written."""
    printed = _orchestrator(folder, "results", "input", "--ledger", "ledger.db")
    verified = _orchestrator(folder, "verify", "--ledger", "ledger.db", "--output", "results.jsonl")
    return [_peak("results", printed), _peak("verify", verified)]


def _orchestrator(folder: Path, *arguments: str) -> Verdict:
    ended = orchestrator(arguments, folder=folder, seconds_max=SECONDS_MAX)
    assert ended.exit_code == 0, ended.stderr
    return ended


def _peak(command: str, ended: Verdict) -> Figure:
    return Figure(
        benchmark="outputs", name=f"{command}: peak memory", value=ended.peak_mb, unit="MB", at_most=PEAK_MB_MAX
    )


def _size_mb(path: Path) -> float:
    return path.stat().st_size / 1e6
