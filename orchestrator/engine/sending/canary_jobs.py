"""The rows of a run that go first, before all others: which they are, and how their jobs stand."""

from collections.abc import Collection, Mapping

import anyio

from orchestrator.core.gates.brake_gates import CanaryFacts
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger


class CanaryJobs:
    """Of one run. `chosen` are the numbers of the jobs that go first, once some were chosen."""

    def __init__(self, run: int, ledger: Ledger) -> None:
        self.chosen: tuple[int, ...] = ()
        self._run = run
        self._ledger = ledger
        self.ids: frozenset[int] = frozenset()
        """The same, once it is asked how they stand."""

        self.is_known = False
        """Whether it is known how all of them stand."""

        self._jobs: dict[int, Job] = {}
        self._has_passed = False
        self._choosing = anyio.Lock()

    @property
    def is_awaited(self) -> bool:
        """Whether rows go first that have not succeeded yet."""
        return self.is_known and not self._has_passed

    async def choose(self, rows: int, share: int) -> None:
        """Chooses so many rows, where none were chosen or none of these is left, and finds out how their jobs stand:
        another process may have removed some, whose rows have other inputs by now.
        """
        async with self._choosing:
            if self.is_known and self.facts(share).has_passed:
                return  # what has succeeded is never removed
            before = dict(self._jobs)
            known = await self._go_first((await self._ledger.jobs.brakes.of(self._run)).canary or ())
            while not known and (fresh := await self._ledger.jobs.brakes.choose(self._run, rows)):
                known = await self._go_first(fresh)  # all of them may be gone by now
            told = {number: job for number, job in self._jobs.items() if job is not before.get(number)}
            self._jobs = {number: told.get(number, job) for number, job in known.items()}  # what steps told is newer
            self._has_passed = self.facts(share).has_passed
            self.is_known = bool(self._jobs)  # a run whose rows are yet to come has none that could go first

    async def _go_first(self, chosen: tuple[int, ...]) -> Mapping[int, Job]:
        """Those go first that are `chosen`; returns how the ones stand that are there."""
        self.chosen, self.ids = chosen, frozenset(chosen)
        return await self._ledger.jobs.of(chosen) if chosen else {}

    def observe(self, job: Job, share: int) -> CanaryFacts | None:
        """`job`, one of `ids`, has taken a step. Returns how they stand where with that enough have succeeded."""
        self._jobs[job.id] = job
        if not self.is_awaited or not (facts := self.facts(share)).has_passed:
            return None
        self._has_passed = True
        return facts

    def facts(self, share: int, *, by_retry: bool | None = None, claiming: int = 0) -> CanaryFacts:
        """How they stand, of which `share` must succeed. `by_retry`: of those due only that are sent so (None: all),
        but for as many as are about to be claimed.
        """
        jobs, now = list(self._jobs.values()), self._ledger.now()
        queued = [job for job in jobs if job.state is State.QUEUED]
        mine = [job for job in queued if by_retry is None or ((job.retry_until or 0) > now) is by_retry]
        due = sum(job.due_at <= now for job in mine)
        return _facts(
            jobs,
            share,
            due=max(0, due - claiming) if by_retry is not None else due,
            next_at=min((job.due_at for job in queued if job.due_at > now), default=None),
        )


def _facts(jobs: Collection[Job], share: int, *, due: int = 0, next_at: int | None = None) -> CanaryFacts:
    """How the `jobs` stand that go first, of which `share` must succeed. `due` of them may be sent now, the next one at
    `next_at`.
    """
    return CanaryFacts(
        chosen=len(jobs),
        succeeded=sum(job.state is State.SUCCEEDED for job in jobs),
        failed=sum(job.state in (State.FAILED, State.CANCELLED) for job in jobs),
        due=due,
        next_at=next_at,
        share=share,
    )


async def rows_first(ledger: Ledger, run: int, share: int) -> CanaryFacts | None:
    """How those of `run` stand that go first; None before whoever serves it has chosen some."""
    chosen = (await ledger.jobs.brakes.of(run)).canary
    return _facts((await ledger.jobs.of(chosen)).values(), share) if chosen else None
