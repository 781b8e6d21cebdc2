"""The ledger as the rest of the program holds it: doors, writer and verbs under one roof."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import TaskStatus
from sqlalchemy import false, update

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.transition import Transition
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger.commands.commands import Commands
from orchestrator.ledger.flows.fires import Fires
from orchestrator.ledger.flows.flows import Flows
from orchestrator.ledger.flows.groups import Groups
from orchestrator.ledger.flows.handovers import Handovers
from orchestrator.ledger.flows.outbox import Outbox
from orchestrator.ledger.flows.pipelines import Pipelines
from orchestrator.ledger.flows.run_outbox import RunOutbox
from orchestrator.ledger.jobs.brakes import Brakes
from orchestrator.ledger.jobs.cancels import Cancels
from orchestrator.ledger.jobs.claims import Claims
from orchestrator.ledger.jobs.history import History
from orchestrator.ledger.jobs.jobs import Jobs
from orchestrator.ledger.jobs.margins import MarginsOfRuns
from orchestrator.ledger.jobs.notices import Notices
from orchestrator.ledger.jobs.result_reuse import Reused
from orchestrator.ledger.jobs.results import Results
from orchestrator.ledger.jobs.segments import Segments
from orchestrator.ledger.jobs.submissions import Submissions
from orchestrator.ledger.reports.audit import Audit
from orchestrator.ledger.reports.event_feed import Feed
from orchestrator.ledger.reports.exports import Exports
from orchestrator.ledger.reports.failed_executions import FailedExecutions
from orchestrator.ledger.reports.file_maintenance import Upkeep
from orchestrator.ledger.reports.job_detail import JobDetails
from orchestrator.ledger.reports.job_queries import JobQueries
from orchestrator.ledger.reports.retention import Pruning
from orchestrator.ledger.reports.run_summaries import RunSummaries, overview
from orchestrator.ledger.runs import clock_repair
from orchestrator.ledger.runs.endpoint_estimates import LearnedOfEndpoints
from orchestrator.ledger.runs.endpoint_limits import ChosenLimits
from orchestrator.ledger.runs.heartbeats import Heartbeats
from orchestrator.ledger.runs.intakes import Intakes
from orchestrator.ledger.runs.runs import Runs
from orchestrator.ledger.runs.scaling_overrides import ScalingOverrides
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.sqlite.ledger_files import Place
from orchestrator.ledger.sqlite.sent_marks import Boot, Marks, marks_of, this_boot
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter, Subscriber
from orchestrator.ledger.transactions.repository import Access
from orchestrator.ledger.transactions.transaction import OnCommit, Settled

_WRITE_NOTHING: Final = update(runs).values(name=runs.c.name).where(false())
"""Needs a ledger that can be written; `BEGIN IMMEDIATE` alone is content with a read-only one, and only reads it."""


class Ledger:
    """One ledger file, open. Made by `open_ledger` (to work on it) or `read_ledger` (to look at it)."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._writer = GroupCommitWriter(database)
        access = self._access = Access(database, self._writer, clock)
        self.heartbeats = Heartbeats(access)
        self.commands = Commands(access)
        self.feed = Feed(access, database, self._writer)
        self.runs = Runs(access)
        self.intakes = Intakes(access)
        self.removals = Intakes(access)
        """What clears runs beside everything else, however much there is of them: in short transactions."""

        self.removals.pace.is_beside = lambda: True
        self.jobs = Jobs(access)
        self.claims = Claims(access, slot=self.heartbeats.slot)
        self.submissions = Submissions(access)
        self.segments = Segments(access)
        self.notices = Notices(access)
        self.cancels = Cancels(access)
        self.results = Results(access)
        self.reused = Reused(access)
        self.job_queries = JobQueries(access)
        self.job_details = JobDetails(access)
        self.margins = MarginsOfRuns(access)
        self.limits = ChosenLimits(access)
        self.scaling_overrides = ScalingOverrides(access)
        self.learned = LearnedOfEndpoints(access)
        self.history = History(access)
        self.brakes = Brakes(access)
        self.failed_executions = FailedExecutions(access)
        self.pruning = Pruning(access)
        self.audit = Audit(access, database)
        self.upkeep = Upkeep(access, database)
        self.pipelines = Pipelines(access)
        self.fires = Fires(access)
        self.flows = Flows(access)
        self.handovers = Handovers(access)
        self.outbox = Outbox(access)
        self.run_outbox = RunOutbox(access)
        self.exports = Exports(access)
        self.groups = Groups(access)
        self.was_ahead_us = 0
        """By how much the clock of an earlier process was ahead of ours, at the least."""

        self.unmarked: str | None = None
        """Why what leaves is not marked; None where it is."""

        self._marks: Marks  # once prepared
        self.place: Place  # once open

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._database.path

    def now(self) -> int:
        """The time by the ledger's clock, microseconds UTC."""
        return self._clock.now()

    async def prepare(self, boot: Boot = this_boot) -> None:
        """Learns what is needed before the first claim. Raises `StorageError` for a ledger that cannot be written."""
        # Before anybody else wants the writer's one connection: those who wait for it while it cannot be made are not
        # told, and would wait for half a minute.
        async with self._database.writing() as connection:
            await connection.execute(_WRITE_NOTHING)
            self.was_ahead_us = await clock_repair.bring_back(connection, now=self._clock.now())
        await self._database.open_readers()
        latest = await self.submissions.latest()
        await self.claims.prepare(latest)
        self._marks, self.unmarked = await marks_of(self._database, boot(), latest=latest)
        self.place = Place(self.path)

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Writes until cancelled. Nothing can be written before it has started."""
        await self._writer.serve(task_status=task_status)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Calls `subscriber` with the steps of each transaction after its commit. It must neither raise nor wait."""
        self._writer.subscribe(subscriber)

    async def overview(self, *, ends_from: int | None, among: Collection[int] | None = None) -> RunSummaries:
        """Every run at once, or those of these numbers; `ends` are those since `ends_from`, which costs a tenth of a
        second, or with None none.
        """
        return await overview(self._access, ends_from=ends_from, among=among)

    async def commits_of_others(self) -> int:
        """A number that is another one once another process has committed something."""
        return await self._database.commits_of_others()

    # --- steps

    async def apply(self, taken: Sequence[Transition], *, settled: Sequence[Settled] = ()) -> frozenset[int]:
        """Takes steps, at most one for each job; returns the jobs whose step was not stale.

        `settled` notices are forgotten in the same transaction, those that belong to a step only if it was not stale.
        Raises `StorageError` when nothing could be written.
        """
        return await self._writer.apply(taken, settled=settled)

    async def step(self, step: Transition) -> bool:
        """Takes one step; False when it was stale."""
        return bool(await self._writer.apply((step,)))

    def submit(self, step: Transition, then: OnCommit) -> None:
        """Takes `step` soon, stale or not, and calls `then` with what went wrong (None: nothing) once that is known.

        `flush` waits for it.
        """
        self._writer.submit(step, then)

    async def room(self) -> None:
        """Returns once there is room for more outputs: they wait in memory until they are written."""
        await self._writer.room()

    async def flush(self) -> None:
        """Returns when everything that was handed over before has been written, or could not be."""
        await self._writer.apply(())

    async def record_notice(self, notice: Notice) -> None:
        """Makes a notice durable; raises `StorageError` when it could not be."""
        await self._writer.record_notice(notice)

    def record_unfinished(self, job: Job) -> None:
        """Writes down, soon, that `job` was not finished at `job.unfinished_at`."""
        self._writer.record_unfinished(job)

    def mark(self, submission: int) -> None:
        """The request of `submission` is about to leave: a crash of the process leaves no doubt about the others."""
        self._marks.mark(submission)

    def never_left(self, claimed: Iterable[Job]) -> frozenset[int]:
        """The submissions of `claimed` jobs whose requests provably never left; a `/retry` is not among them."""
        return self._marks.never_left(job.submission or 0 for job in claimed if not job.by_retry)

    async def copy_to(self, path: Path) -> None:
        """Writes all that is committed into the empty file at `path`, also where the ledger's own is gone.

        Raises `StorageError`.
        """
        await self._database.copy_to(path)

    async def aclose(self) -> None:
        """Closes the file."""
        await self._database.aclose()
