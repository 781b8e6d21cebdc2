"""One seed: its plan, its world, and what is wrong with it."""

import atexit
import os
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.units import SECOND_US
from tests.postgres.databases import Databases
from tests.postgres.server import NAMED
from tests.simulation.books import read_books
from tests.simulation.checks import violations
from tests.simulation.clock import EPOCH_AT
from tests.simulation.engines.play import EnginesPlay
from tests.simulation.facts import Facts
from tests.simulation.plan import Plan
from tests.simulation.play import Play
from tests.simulation.posted_play import PostedPlay
from tests.simulation.scenarios import SCENARIOS

SHOWN_MAX = 6
"""So many violations of one world are shown."""


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A world that was played, in short."""

    scenario: str
    seed: int
    jobs: int
    violations: tuple[str, ...]
    virtual_s: float
    cpu_s: float

    def lines(self) -> list[str]:
        """What is wrong, and the command that shows how it came to that."""
        return [
            f"{self.scenario} {self.seed}:",
            *(f"  - {text}" for text in self.violations[:SHOWN_MAX]),
            f"  replay with: python -m tests.simulation --scenario {self.scenario} --seed {self.seed} --trace",
        ]


def player(plan: Plan, folder: Path, url: str = "", *, traced: bool) -> Play:
    """Who plays it; where several engines share a ledger, on the empty one in the database at `url`."""
    if plan.engines is not None:
        return EnginesPlay(plan, folder, url, traced=traced)
    return (Play if plan.posted is None else PostedPlay)(plan, folder, traced=traced)


@contextmanager
def _place(plan: Plan, databases: Databases | None) -> Iterator[str]:
    """The URL of an empty ledger, where the world needs one on a server."""
    if plan.engines is None:
        yield ""
        return
    with (databases or _own_databases()).one() as url:
        yield url


_own: Final[list[Databases]] = []


def _own_databases() -> Databases:
    """Those of this process, on the server that the environment names."""
    if not _own:
        _own.append(Databases(os.environ[NAMED]))
        atexit.register(leave_server)
    return _own[0]


def leave_server() -> None:
    """Nothing of this process is left at the server."""
    while _own:
        _own.pop().close()


def played(scenario: str, seed: int, databases: Databases | None = None) -> Played:
    """Plays one world in a folder that is gone afterwards; `databases` are for those that need one. That it breaks down
    is a violation: nobody would know which it was, nor what came of the others.
    """
    started_s = time.process_time()
    plan = SCENARIOS[scenario](seed)
    try:
        with tempfile.TemporaryDirectory(prefix="world-") as folder, _place(plan, databases) as url:
            facts = player(plan, Path(folder), url, traced=False).play()
            found = tuple(violations(facts))
    except Exception:  # noqa: BLE001  it is told
        broken = f"it broke down: {traceback.format_exc()}"
        cpu_s = time.process_time() - started_s
        return Played(scenario=scenario, seed=seed, jobs=0, violations=(broken,), virtual_s=0.0, cpu_s=cpu_s)
    return Played(
        scenario=scenario,
        seed=seed,
        jobs=sum(len(run.numbers) for run in facts.runs),
        violations=found,
        virtual_s=(facts.true.now() - EPOCH_AT) / SECOND_US,
        cpu_s=time.process_time() - started_s,
    )


def story(scenario: str, seed: int) -> str:
    """The plan of a world, everything that happened in it, and what is wrong: text for people."""
    plan = SCENARIOS[scenario](seed)
    with tempfile.TemporaryDirectory(prefix="world-") as folder, _place(plan, None) as url:
        facts = player(plan, Path(folder), url, traced=True).play()
        _tell_events(facts)
        found = violations(facts)
    told = "\n".join([str(facts.plan), "", facts.trace.text(), "", *(found or ["nothing is violated"])])
    return told.replace(folder, "FOLDER")


def _tell_events(facts: Facts) -> None:
    """Puts the ledger's events into the trace, at their true times."""
    books = read_books(facts.ledger)
    for job in books.jobs:
        for row in books.events.get(job.id, ()):
            submission = books.submission_of(row)
            name = f"{job.custom_id} {submission.remote_id or submission.id}" if submission else job.custom_id
            trouble = f" {row.trouble}" if row.trouble else ""
            at = facts.moments.get(row.at, row.at)
            facts.trace.lines.append((at, "ledger", f"{row.event}{trouble} ({row.reason or row.code})", name))
