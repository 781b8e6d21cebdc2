"""One run whose jobs four endpoints share: how much of their allowances it uses."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.endpoints import CORE_PERCENT_MAX, JOBS, served
from tests.benchmarks.figures import Figure

MEMBERS: Final = 4
EXECUTION_S: Final = 0.34
"""As the records of the service say."""

WORKERS: Final = 400
PER_S_MIN: Final = 380.0
"""Of the 400 a second that four endpoints take."""


def pools(jobs: int = MEMBERS * JOBS) -> list[Figure]:
    """The submissions a second, what was refused, and the use of a core."""
    with TemporaryDirectory() as name:
        place = ",".join(f"endpoint-{n}" for n in range(MEMBERS))
        took, seen = served(Path(name), jobs, [f"{place}:0"], execution_s=EXECUTION_S, workers=WORKERS)
    assert seen.runs == jobs, seen
    assert seen.first_run_s is not None
    assert seen.last_run_s is not None

    def figure(
        what: str, value: float, unit: str, *, at_least: float | None = None, at_most: float | None = None
    ) -> Figure:
        return Figure(benchmark="pools", name=what, value=value, unit=unit, at_least=at_least, at_most=at_most)

    counts = [each.number for each in seen.endpoints.values()]
    per_s = (jobs - 1) / (seen.last_run_s - seen.first_run_s)
    return [
        figure(f"{MEMBERS} members: submissions", per_s, "/s", at_least=PER_S_MIN),
        figure("answered 429", seen.throttled, "requests", at_most=0),
        figure("of one core", 100 * took.cpu_s / took.wall_s, "%", at_most=CORE_PERCENT_MAX),
        figure("CPU per job", 1000 * took.cpu_s / jobs, "ms"),
        figure("the least busy member's part of what it may take", 100 * min(counts) * MEMBERS / jobs, "%"),
    ]
