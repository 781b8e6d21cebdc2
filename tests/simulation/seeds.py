"""One seed: its plan, its world, and what is wrong with it."""

import tempfile
import time
from pathlib import Path

import msgspec

from orchestrator.units import SECOND_US
from tests.simulation.books import read_books
from tests.simulation.checks import violations
from tests.simulation.clock import EPOCH_AT
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


def player(plan: Plan, folder: Path, *, traced: bool) -> Play:
    """Who plays it."""
    return (Play if plan.posted is None else PostedPlay)(plan, folder, traced=traced)


def played(scenario: str, seed: int) -> Played:
    """Plays one world in a folder that is gone afterwards."""
    started_s = time.process_time()
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        facts = player(SCENARIOS[scenario](seed), Path(folder), traced=False).play()
        found = tuple(violations(facts))
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
    with tempfile.TemporaryDirectory(prefix="world-") as folder:
        facts = player(SCENARIOS[scenario](seed), Path(folder), traced=True).play()
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
