"""The time for which a process owns a ledger on a server: how it waits for it, takes it, beats, and lets go.

A beat that fails says nothing: the process trusts itself for some seconds more, and again once one succeeds, for by
then nobody has taken its place. Only a beat that finds its row gone tells that somebody has; then nothing brings it
back.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from orchestrator.core.ownership.beat_watch import BeatWatch
from orchestrator.core.ownership.lease import BEAT_US, Lease
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger.postgres.connection import Connect, Driver, LineBounds, watch_over
from orchestrator.ledger.postgres.process_mark import connection_name
from orchestrator.ledger.processes.leases import LeaseProof, Leases, Owner, ProcessName
from orchestrator.ledger.processes.this_process import THIS_PROCESS, ThisProcess
from orchestrator.units import SECOND_US

log = logging.getLogger(__name__)

ANSWERED_S_MAX: Final = 3.0
"""How long the server may take over a beat, or to say who owns the ledger."""

LOOK_S: Final = 0.25
"""How often whoever stands by looks."""

_BOUNDS: Final = LineBounds(connected_s=ANSWERED_S_MAX, answered_s=ANSWERED_S_MAX)
SETTINGS: Final = {"lock_timeout": "2000", "default_transaction_read_only": "off"}
"""Of the connection on which all of it is asked: whoever holds a lease by a transaction that stands still is waited for
again and again, not for ever."""


class Tenure:
    """Of this process, which owns the ledger called `name`, by that `proof`, from `begun_at` on by the clock `now`."""

    def __init__(
        self,
        name: str,
        proof: LeaseProof,
        line: "LeaseLine",
        *,
        now: Callable[[], int],
        begun_at: int,
        is_successor: bool,
    ) -> None:
        self._name = name
        self._proof = proof
        self._line = line
        self._now = now
        self._lease = Lease(begun_at)
        self.loop = asyncio.get_running_loop()
        self.is_successor = is_successor
        """Whether it took the place of a process that did not let go: requests of that one may still be under way."""

        self.why_lost: str | None = None
        """Why it owns the ledger no more, once that is known."""

    @property
    def fence(self) -> str:
        """The statement that finds one row as long as it owns the ledger, and keeps it so for its transaction."""
        return self._proof.fence

    def may_leave(self) -> bool:
        """Whether anything may leave for the service now."""
        return self._lease.is_good(self._now())

    def lose(self, to: Owner | None = None) -> None:
        """Another process has the ledger."""
        self._lease.end()
        if self.why_lost is None:
            by = "another process" if to is None else to.text
            self.why_lost = f"{self._name}: {by} has taken this ledger over; nothing more is sent from here"

    async def beat(self) -> None:
        """Beats until it has lost the ledger."""
        while self.why_lost is None:
            begun_at = self._now()
            try:
                async with self._line.asking() as leases:
                    is_there = await leases.beat(self._proof)
                    successor = None if is_there else await leases.owner()
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.info("%s: a beat has failed: %s", self._name, error)
            else:
                if is_there:
                    self._lease.beaten(begun_at)
                else:
                    self.lose(successor)
            await anyio.sleep(max(0, BEAT_US - (self._now() - begun_at)) / SECOND_US)

    async def leave(self) -> None:
        """Lets go of the ledger, so that whoever comes next need not wait."""
        self._lease.end()
        if self.why_lost is None:
            with suppress(Exception):
                async with self._line.asking() as leases:
                    await leases.leave(self._proof)


class LeaseLine:
    """A connection of `process` on which only leases are asked for, and another one where that is lost. `connect` makes
    one.
    """

    def __init__(self, connect: Connect, process: ProcessName) -> None:
        self._connect = connect
        self._settings = {**SETTINGS, "application_name": connection_name(process.name, process.mark)}
        self._driver: Driver = None

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[Leases]:
        """Asks within the block, for `ANSWERED_S_MAX` at most. What is raised there ends the connection."""
        try:
            with anyio.fail_after(ANSWERED_S_MAX):
                if self._driver is None:
                    self._driver = await self._connect(self._settings, _BOUNDS)
                    watch_over(self._driver)
                yield Leases(self._driver)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Ends the connection, whoever is at its other end."""
        if self._driver is not None:
            self._driver.terminate()
            self._driver = None


@asynccontextmanager
async def tenure_of(
    name: str,
    connect: Connect,
    process: ProcessName,
    *,
    here: ThisProcess = THIS_PROCESS,
    stands_by: Callable[[str], object] | None = None,
) -> AsyncIterator[Tenure]:
    """The process `here`, called `process`, owns the ledger called `name` while the block runs, unless it loses it.

    Raises `LedgerBusyError`, which says who owns it. With `stands_by`, which is called with that and with each further
    owner, it waits for the end of that one instead, and takes its place. One whose connections have ended counts as
    gone once its beat has stood still for long enough.
    """
    line = LeaseLine(connect, process)
    try:
        tenure = await _Candidate(name, line, process, stands_by, here).taken()
        # Not in a task group, which would be a scope around the block, and wrap what is raised in it.
        beating = asyncio.ensure_future(tenure.beat())  # noqa: TID251
        here.tenures[name] = tenure
        try:
            yield tenure
        finally:
            del here.tenures[name]
            beating.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait([beating])
                await tenure.leave()
    finally:
        line.end()


class _Candidate:
    """A `process` that is to own the ledger called `name`."""

    def __init__(
        self,
        name: str,
        line: LeaseLine,
        process: ProcessName,
        stands_by: Callable[[str], object] | None,
        here: ThisProcess,
    ) -> None:
        self._name = name
        self._line = line
        self._process = process
        self._stands_by = stands_by
        self._elapsed = here.elapsed
        self._clock = here.wary_clock()
        self._watch = BeatWatch()
        self._met: Owner | None = None

    async def taken(self) -> Tenure:
        """The ledger, once it is nobody's, or its owner's beat has stood still for long enough."""
        tenure = await self._look()
        while tenure is None:
            await anyio.sleep(LOOK_S)
            try:
                tenure = await self._look()
            except Exception as error:
                if self._stands_by is None:
                    raise
                log.info("%s: who owns this ledger is unknown: %s", self._name, error)
                self._watch = BeatWatch()  # who could not be asked may not have been able to beat either
        return tenure

    async def _look(self) -> Tenure | None:
        begun_at = self._clock.now()
        async with self._line.asking() as leases:
            owner = await leases.owner()
            if owner is None:
                return self._tenure(await leases.take(self._process), begun_at)
            self._watch.saw(owner.latest_beat, self._elapsed())
            if self._watch.silent(self._elapsed()) == owner.latest_beat:
                return self._tenure(await leases.take_over(owner, self._process), begun_at, is_successor=True)
        self._meet(owner)
        return None

    def _tenure(self, proof: LeaseProof | None, begun_at: int, *, is_successor: bool = False) -> Tenure | None:
        if proof is None:
            return None
        now = self._clock.now
        return Tenure(self._name, proof, self._line, now=now, begun_at=begun_at, is_successor=is_successor)

    def _meet(self, owner: Owner) -> None:
        before, self._met = self._met, owner
        if self._stands_by is not None:
            if before is None or before.owner != owner.owner:
                self._stands_by(owner.text)
        elif owner.is_connected or (before is not None and before.beat != owner.beat):
            raise LedgerBusyError(
                f"{self._name}: {owner.text} is working on this ledger; wait for it, stop it, or use another"
                " <setting ledger>"
            )
