"""The program is killed at every commit of a small run, before it and after it; the service lives on.

The run takes in its jobs, loses an answer and a webhook; its commits are those of the intake, the claims, the answers,
the notices and the results. After each kill the ledger is audited as it was left, then a second process ends the run.
"""

import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.contract.faults import Faults
from orchestrator.ledger import Ledger
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.engine.process import Process, process, reached_by_webhooks
from tests.ledger.ledgers import opened
from tests.simulation.clock import VirtualClock
from tests.simulation.long_work import LongWork
from tests.simulation.run import Crash, run, run_until_crash
from tests.simulation.world import SimulatedService, Work, echo

JOBS = 3
SEED = 2


class AtCommit:
    """Kills the world at its so manieth commit, before it or after it."""

    def __init__(self, number: int, *, after: bool) -> None:
        self.seen = 0
        self._number, self._after = number, after
        self._crash = Crash()

    def committing(self) -> bool:
        self.seen += 1
        if self.seen == self._number and not self._after:
            self._crash.pull()
            return False
        return True

    def committed(self) -> None:
        if self.seen == self._number and self._after:
            self._crash.pull()


class World:
    """A service, and processes on one ledger, one after the other."""

    settings = RunSettings()
    jobs = JOBS

    def __init__(self, folder: Path, work: Work = echo) -> None:
        self.path = folder / "db"
        self.clock = VirtualClock()
        self.chance = random.Random(SEED)
        self.service = SimulatedService(
            self.clock,
            seed=SEED,
            workers=3,
            work=work,
            seconds=lambda rng: rng.uniform(0.2, 2.0),
            faults=Faults(lost_answer=0.2, lost_webhook=0.3, duplicate_webhook=0.3),
        )

    def life(
        self, commits: AtCommit | None, last: Callable[[Process], Awaitable[None]]
    ) -> Callable[[], Awaitable[None]]:
        """A process from its start to the end of the run; `last` looks at it then."""

        async def main() -> None:
            transport = self.service.transport(travel_s=lambda: self.chance.uniform(0, 0.1))
            async with (
                self.service.serving(),
                process(
                    self.path,
                    transport,
                    clock=self.clock,
                    jobs=self.jobs,
                    settings=self.settings,
                    webhooks=True,
                    commits=commits,
                ) as p,
                reached_by_webhooks(p, self.service),
            ):
                await p.begin()
                await p.finish()
                await last(p)

        return main

    async def check(self, p: Process) -> None:
        counts = await p.counts()
        assert [(job.job, job.output) for job in await p.results()] == [
            (n, b'{"n":%d}' % n) for n in range(1, JOBS + 1)
        ]
        assert await p.failures() == []
        assert self.service.paid <= JOBS + counts.get("uncertain_resubmitted", 0)
        assert await audited(p.ledger) == []


class LongWorld(World):
    """The same of resumable jobs, whose workers are killed on their way, and give them back before their time is up."""

    settings = RunSettings(
        resumable=True,
        progress_every_us=2 * SECOND_US,
        policy=Policy(execution_timeout_ms=15_000, ttl_ms=120_000),
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.service.long_work = LongWork(work_s=30, report_every_s=1, checkpoint_every_s=3, killed_after_s=12)

    async def check(self, p: Process) -> None:
        assert [job.output for job in await p.results()] == [b'{"n":%d}' % n for n in range(1, JOBS + 1)]
        assert await audited(p.ledger) == []
        for job in range(1, JOBS + 1):
            segments = await p.ledger.jobs.segments.of_job(job)
            given = [(each.given_segment, each.given_seq) for each in segments]
            assert given == sorted(given), "no segment goes back behind what another one went on from"
            assert len({each.submission for each in segments}) == len(segments)


async def audited(ledger: Ledger) -> list[str]:
    findings = Findings()
    await audit_ledger(ledger, findings, lambda *_: None)
    return [example for finding in findings.all() for example in finding.examples]


async def nothing(_: Process) -> None: ...


async def look(world: World) -> None:
    """Audits the ledger as the kill has left it."""
    async with opened(world.path, clock=world.clock) as ledger:
        assert await audited(ledger) == []


def killed(folder: Path, number: int, *, after: bool, kind: type[World] = World) -> None:
    """Kills a run at its so manieth commit and lets another process end it."""
    world = kind(folder)
    crashed_at_s = run_until_crash(world.life(AtCommit(number, after=after), nothing), seed=SEED)
    assert crashed_at_s is not None, f"a run that has ended before its commit {number}"
    if after:  # killed before a commit, the ledger is as it was after the one before
        run(partial(look, world), start_s=crashed_at_s)
    run(world.life(None, world.check), seed=SEED, start_s=crashed_at_s)


def commits_of_a_run(folder: Path, kind: type[World] = World) -> int:
    """How many commits a run has that nobody kills."""
    world, commits = kind(folder), AtCommit(0, after=False)
    run(world.life(commits, world.check), seed=SEED)
    return commits.seen
