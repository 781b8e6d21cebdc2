"""The ledger as the rest of the program holds it: what it has of each noun, and its writer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sqlalchemy import false, update

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job
from orchestrator.ledger.actions.actions import Actions
from orchestrator.ledger.commands.command_repository import Commands
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.flows.flow_repositories import FlowRepositories
from orchestrator.ledger.jobs.job_repositories import JobRepositories
from orchestrator.ledger.overviews.overviews import Overviews
from orchestrator.ledger.reports.reports import Reports
from orchestrator.ledger.runs import clock_repair
from orchestrator.ledger.runs.run_repositories import RunRepositories
from orchestrator.ledger.samples.sample_repository import Samples
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.sqlite.file_locks import holder, locked_since
from orchestrator.ledger.sqlite.ledger_files import LedgerFiles
from orchestrator.ledger.sqlite.sent_marks import Boot, Marks, marks_of, this_boot
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.repository import Access

_WRITE_NOTHING: Final = update(runs).values(name=runs.c.name).where(false())
"""Needs a ledger that can be written; `BEGIN IMMEDIATE` alone is content with a read-only one, and only reads it."""


class Ledger:
    """One ledger, open. Made by `open_ledger` (to work on it) or `read_ledger` (to look at it)."""

    def __init__(self, database: LedgerDatabase, clock: Clock) -> None:
        self._database = database
        self.writer = GroupCommitWriter(database, clock, Patience(clock, database.waited_s))
        self._access = access = Access(database, self.writer, clock)
        self.runs = RunRepositories(access)
        self.jobs = JobRepositories(access, slot=self.runs.heartbeats.slot)
        self.flows = FlowRepositories(access)
        self.reports = Reports(access, database, self.writer)
        self.overviews = Overviews(access)
        self.commands = Commands(access)
        self.samples = Samples(access)
        self.actions = Actions(access)
        self.was_ahead_us = 0
        """By how much the clock of an earlier process was ahead of ours, at the least."""

        self.unmarked: str | None = None
        """Why what leaves is not marked; None where it is."""

        self.marks: Marks  # once prepared
        self.place: LedgerFiles  # once open

    @property
    def path(self) -> Path:
        """Where the file is. There must be one: a ledger on a server has none."""
        assert isinstance(self._database, Database)
        return self._database.path

    @property
    def patience(self) -> Patience:
        """How long this process waits for the ledger where it cannot be used just now."""
        return self.writer.patience

    def now(self) -> int:
        """The time by the ledger's clock, microseconds UTC."""
        return self._access.now()

    async def prepare(self, boot: Boot = this_boot) -> None:
        """Learns what is needed before the first claim. Raises `StorageError` for a ledger that cannot be written."""
        # Before anybody else wants the writer's one connection: those who wait for it while it cannot be made are not
        # told, and would wait for half a minute.
        async with self._database.writing() as connection:
            await connection.execute(_WRITE_NOTHING)
            self.was_ahead_us = await clock_repair.bring_back(connection, now=self.now())
        await self._database.open_readers()
        latest = await self.jobs.submissions.latest()
        await self.jobs.claims.prepare(latest)
        if isinstance(self._database, Database):
            self.marks, self.unmarked = await marks_of(self._database, boot(), latest=latest)
            self.place = LedgerFiles(self.path)
        else:
            self.marks = Marks.unkept(floor=latest)
            self.unmarked = f"{self._database.name}: what has left is marked beside a file, and this is none"

    async def holder(self) -> str | None:
        """Who works on the ledger now, as text for people; None if nobody does."""
        return holder(self.path)

    async def taken_at(self) -> int | None:
        """When somebody last began to work on it (microseconds UTC); None where that is not known."""
        return locked_since(self.path)

    async def commits_of_others(self) -> int:
        """A number that is another one once another process has committed something."""
        return await self._access.commits_of_others()

    async def structure(self) -> int:
        """A number that is another one once anybody has brought the ledger to another schema."""
        return await self._database.structure()

    def never_left(self, claimed: Iterable[Job]) -> frozenset[int]:
        """The submissions of `claimed` jobs whose requests provably never left; a `/retry` is not among them."""
        return self.marks.never_left(job.submission or 0 for job in claimed if not job.by_retry)

    async def aclose(self) -> None:
        """Closes the file."""
        await self._database.aclose()
