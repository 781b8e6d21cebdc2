"""The ledger as the rest of the program holds it: what it has of each noun, and its writer."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from sqlalchemy import false, update

from orchestrator.clock import Clock
from orchestrator.core.jobs.job import Job
from orchestrator.ledger.actions.actions import Actions
from orchestrator.ledger.administration.server_inspection import ServerInspection
from orchestrator.ledger.commands.command_repository import Commands
from orchestrator.ledger.database import CommitsOfOthers
from orchestrator.ledger.flows.flow_repositories import FlowRepositories
from orchestrator.ledger.jobs.job_repositories import JobRepositories
from orchestrator.ledger.overviews.overviews import Overviews
from orchestrator.ledger.reports.reports import Reports
from orchestrator.ledger.runs import clock_repair
from orchestrator.ledger.runs.heartbeats import Heartbeat, at_work
from orchestrator.ledger.runs.run_repositories import RunRepositories
from orchestrator.ledger.samples.sample_repository import Samples
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.sites.sent_marks import Boot, Marks, SentMarks, this_boot
from orchestrator.ledger.sites.site import LedgerPlace, LedgerSite, Owners, Ownership
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.patience import Patience
from orchestrator.ledger.transactions.repository import Access
from orchestrator.settings.addresses.ledger_address import LedgerAddress

_WRITE_NOTHING: Final = update(runs).values(name=runs.c.name).where(false())
"""Needs a ledger that can be written; `BEGIN IMMEDIATE` alone is content with a read-only one, and only reads it."""


class Ledger:
    """One ledger, open. Made by `open_ledger` (to work on it) or `read_ledger` (to look at it)."""

    def __init__(self, site: LedgerSite, clock: Clock) -> None:
        self._site = site
        database = site.database
        self.writer = GroupCommitWriter(database, clock, Patience(clock, database.waited_s, site.hurry))
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

        self._sent: SentMarks  # once prepared
        self.place: LedgerPlace  # once open

    @property
    def ownership(self) -> Ownership | None:
        """What there is to ask of us who work on it, once it is prepared; None where nobody can take it from us."""
        return self._site.ownership

    @property
    def address(self) -> LedgerAddress:
        """Where it is."""
        return self._site.address

    @property
    def patience(self) -> Patience:
        """How long this process waits for the ledger where it cannot be used just now."""
        return self.writer.patience

    @property
    def clock(self) -> Clock:
        """By which its times are told: on a server that is not the clock of this machine."""
        return self._access.clock

    def now(self) -> int:
        """The time by the ledger's clock, microseconds UTC."""
        return self._access.now()

    async def prepare(self, boot: Boot = this_boot) -> None:
        """Learns what is needed before the first claim. Raises `StorageError` for a ledger that cannot be written."""
        self._site.own()
        if self.ownership is not None:
            self.jobs.claims.slot = self.runs.heartbeats.slot = self.samples.slot = self.ownership.slot
            self.runs.heartbeats.epoch = self.ownership.number
        # Before anybody else wants the writer's one connection: those who wait for it while it cannot be made are not
        # told, and would wait for half a minute.
        async with self._site.database.writing() as connection:
            await connection.execute(_WRITE_NOTHING)
            self.was_ahead_us = await clock_repair.bring_back(connection, now=self.now())
        await self._site.database.open_readers()
        latest = await self.jobs.submissions.latest()
        await self.jobs.claims.prepare(latest)
        self._sent = await self._site.marks(boot, self.jobs.submissions.latest)
        self.settle()

    def settle(self) -> None:
        """Takes its place as it is now for its own, and so notices when that is lost."""
        self.place = self._site.place()

    async def holder(self, endpoint: int | None = None) -> str | None:
        """Who works on the ledger now, as text for people, or at the endpoint of that number; None if nobody does."""
        return await self._access.waited(partial(self._site.holder, endpoint))

    async def holder_or_next(self) -> str | None:
        """The same of the whole ledger; where its owner has just died, one that is there to take its place."""
        held_by, server = await self.holder(), self._site.inspection
        if held_by is None and server is not None:
            held_by = await self._access.waited(server.next_holder)
        return held_by

    async def servers(self) -> Mapping[int, int]:
        """See `ServerInspection.servers`; nobody shares a file."""
        server = self._site.inspection
        return {} if server is None else await self._access.waited(server.servers)

    async def owners(self, held_by: str) -> Owners:
        """Who works where, while `held_by` works on the ledger."""
        return await self._access.waited(partial(self._site.owners, held_by))

    async def beats_at_work(self, held_by: str | None) -> Sequence[Heartbeat]:
        """What each process at work has said last; `held_by` says who works on the ledger."""
        if held_by is None:
            return []
        return at_work(await self.runs.heartbeats.all(), self.now(), since=await self.taken_at() or 0)

    async def taken_at(self) -> int | None:
        """When somebody last began to work on it (microseconds UTC); None where that is not known."""
        return await self._access.waited(self._site.taken_at)

    @property
    def server(self) -> ServerInspection | None:
        """What there is to ask of the server on which it is; None where it is in a file."""
        return self._site.inspection

    async def commits_of_others(self) -> int:
        """A number that is another one once another process has committed something."""
        return await self._access.commits_of_others()

    async def signals_of_others(self) -> CommitsOfOthers:
        """The same, and what of it was signalled to engines."""
        return await self._access.signals_of_others()

    async def structure(self) -> int:
        """A number that is another one once anybody has brought the ledger to another schema."""
        return await self._access.waited(self._site.database.structure)

    @property
    def marks(self) -> Marks:
        """Where this process marks what is about to leave, once it is prepared."""
        return self._sent.own

    @property
    def unmarked(self) -> str | None:
        """Why what leaves is not marked; None where it is."""
        return self._sent.unkept

    async def never_left(self, claimed: Iterable[Job]) -> frozenset[int]:
        """The submissions of `claimed` jobs whose requests provably never left; a `/retry` is not among them."""
        submissions = [job.submission or 0 for job in claimed if not job.by_retry]
        return await self._access.waited(partial(self._sent.never_left, submissions))

    async def webhook_key(self, environ: Mapping[str, str]) -> bytes:
        """The key by which tokens of webhooks are signed. Raises `UsageError` where this process has another one."""
        return await self._site.webhook_key(environ)

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._site.aclose()
