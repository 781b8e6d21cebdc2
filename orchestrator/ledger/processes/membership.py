"""A process among those of a ledger on a server: it joins, beats, and leaves or dies.

A beat that fails says nothing: the process trusts itself for some seconds more, and again once one succeeds, for by
then nobody has declared it dead. Only a beat that finds its row gone tells that somebody has; then nothing brings it
back. So it is where the server lets it in no more: see `refusal_watch.py`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import anyio

from orchestrator.core.ownership.handover import EndpointsLeft
from orchestrator.core.ownership.lease import BEAT_US, PROCESSES_MAX, Lease
from orchestrator.errors import LedgerBusyError, LostCommitsError
from orchestrator.ledger.postgres.connection import Connect
from orchestrator.ledger.postgres.identity.lost_commits import lost_commits
from orchestrator.ledger.processes.owners_line import OwnersLine
from orchestrator.ledger.processes.processes import ProcessKind, ProcessName, ProcessNumber
from orchestrator.ledger.processes.refusal_watch import RefusalWatch
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)


class Farewell(NamedTuple):
    """What a process says as it ends in order."""

    settled: Sequence[int]
    """The shards of which nothing can be under way any more that an owner has sent which was declared dead."""

    handover: str
    """What it leaves to its successors; see `core.ownership.handover`."""


NOTHING_LEFT: Final = Farewell((), EndpointsLeft().text)


class Membership:
    """Of a process in the ledger called `name`, by that `number`, from `begun_at` on by the clock `now`."""

    def __init__(
        self, name: str, number: ProcessNumber, line: OwnersLine, *, now: Callable[[], int], begun_at: int
    ) -> None:
        self.name = name
        self._line = line
        self._now = now
        self._lease = Lease(begun_at)
        self._latest = 0
        self.number = number
        self.why_lost: str | None = None
        """Why it is dead, or works no more, once that is known."""

        self.is_refused = False
        """Whether the server has let it in no more, and that is why."""

    def may_leave(self) -> bool:
        """Whether anything may leave for the service now."""
        return self._lease.is_good(self._now())

    def lose(self, to: str | None) -> None:
        """Another process has declared it dead; `to` whom the ledger went, where that is known."""
        by = to or "another process"
        self._end(f"{self.name}: {by} has taken this ledger over; nothing more is sent from here")

    def refusals(self) -> RefusalWatch:
        """Watches one of its lines: where it is refused for good, it works no more."""
        return RefusalWatch(self.name, self._now, self._refused)

    def _refused(self, why: str) -> None:
        self.is_refused = self.is_refused or self.why_lost is None
        self._end(why)

    def _end(self, why: str) -> None:
        self._lease.end()
        self.why_lost = self.why_lost or why

    async def beat(self) -> None:
        """Beats until it is dead."""
        refusals = self.refusals()
        while self.why_lost is None:
            begun_at = self._now()
            try:
                with refusals.watching():
                    async with self._line.asking() as asked:
                        beat = await asked.processes.beat(self.number)
                        if beat is not None and beat <= self._latest:  # what was said since has been forgotten
                            await asked.processes.note_loss()
                            beat = None
                        successor = None if beat is not None else await asked.leases.owner()
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("%s: a beat has failed: %s", self.name, error)
            else:
                if beat is not None:
                    self._latest = beat
                    self._lease.beaten(begun_at)
                else:
                    self.lose(None if successor is None else successor.text)
            await anyio.sleep(max(0, BEAT_US - (self._now() - begun_at)) / SECOND_US)

    async def leave(self, farewell: Farewell) -> None:
        """Leaves, so that nobody need wait; see `Processes.leave`."""
        self._lease.end()
        if self.why_lost is None:
            with suppress(Exception):
                async with self._line.asking() as asked:
                    await asked.processes.leave(self.number, settled=farewell.settled, handover=farewell.handover)


@asynccontextmanager
async def membership_of(
    name: str,
    connect: Connect,
    process: ProcessName,
    here: ThisProcess,
    farewell: Callable[[], Farewell],
    kind: ProcessKind,
) -> AsyncIterator[Membership]:
    """Is one of those of the ledger called `name` while the block runs, and beats; see `Processes.join`. At its end
    `farewell` tells what it says to those that come next.

    Raises `LedgerBusyError` where there are `PROCESSES_MAX`, `LostCommitsError` where the server has lost what it had
    confirmed, and nobody has accepted that, and otherwise what the driver does.
    """
    line, now = OwnersLine(connect, process), here.wary_clock().now
    try:
        begun_at = now()
        try:
            async with line.asking() as asked:
                number = await asked.processes.join(process, kind)
        except LostCommitsError:
            raise lost_commits(name) from None
        if number is None:
            raise LedgerBusyError(
                f"{name}: {PROCESSES_MAX} processes work on this ledger or stand by already, which is all there may be;"
                " stop one of them"
            )
        membership = Membership(name, number, line, now=now, begun_at=begun_at)
        # Not in a task group, which would be a scope around the block, and wrap what is raised in it.
        beating = asyncio.ensure_future(membership.beat())  # noqa: TID251
        try:
            yield membership
        finally:
            beating.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([beating])
                await membership.leave(farewell())
    finally:
        line.end()
