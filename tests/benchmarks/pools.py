"""One run whose jobs several endpoints share: how much of four allowances it uses, and, on virtual time, how soon it is
done where members are of different speeds, die, or have no machine.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.endpoints import CORE_PERCENT_MAX, JOBS, served
from tests.benchmarks.figures import Figure
from tests.engine.pools.goals import Goal, of_lanes, of_speeds, of_troubles
from tests.engine.pools.pooled import MIDDLE, SLOW
from tests.simulation.run import run as run_world

MEMBERS: Final = 4
EXECUTION_S: Final = 0.34
"""As the records of the service say."""

WORKERS: Final = 400
PER_S_MIN: Final = 380.0
"""Of the 400 a second that four endpoints take."""

SPEEDS_PERCENT_MAX: Final = 10.0
TROUBLES_PERCENT_MAX: Final = 20.0

PLAYED: Final[tuple[tuple[str, Callable[[Path], Awaitable[Goal]], float], ...]] = (
    ("members of 1, 2 and 4 times the speed", of_speeds, SPEEDS_PERCENT_MAX),
    ("a queue and a server at a URL that is as fast", of_lanes, SPEEDS_PERCENT_MAX),
    (
        "the first of four dies in the middle, one is throttled",
        partial(of_troubles, seconds=2.0, dying=SLOW, starving=MIDDLE),
        TROUBLES_PERCENT_MAX,
    ),
    (
        "one of four dies in the middle, the first is throttled",
        partial(of_troubles, seconds=10.0, dying=MIDDLE, starving=SLOW),
        TROUBLES_PERCENT_MAX,
    ),
)
"""What is played on virtual time, and by how much longer it may take than those that are well need at least."""


def pools() -> list[Figure]:
    """All of it."""
    return [*members(), *goals()]


def members(jobs: int = MEMBERS * JOBS) -> list[Figure]:
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


def goals() -> list[Figure]:
    """How much longer pools take than their members need, and what was executed twice without a reason."""
    found: list[Figure] = []
    twice = 0
    for name, play, most in PLAYED:
        with TemporaryDirectory() as folder:
            goal = run_world(partial(play, Path(folder)))
        longer = 100 * goal.longer
        found.append(Figure(benchmark="pools", name=f"{name}: longer", value=longer, unit="%", at_most=most))
        twice += goal.twice
    return [
        *found,
        Figure(benchmark="pools", name="executed twice, and not uncertain", value=twice, unit="jobs", at_most=0),
    ]
