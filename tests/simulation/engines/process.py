"""A process that works on, or asks something of, a ledger on a server: with a door of its own to it, clocks of its own, and
a mark of its own.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import anyio
import msgspec

from orchestrator.clock import WaryElapsedClock
from orchestrator.core.ownership.shard_bids import KEEPERS
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger import IntakeRight
from orchestrator.ledger.processes.shard_owner import ShardOwner
from orchestrator.ledger.processes.this_process import ThisProcess
from orchestrator.ledger.sites.server_site import ServerSite
from orchestrator.settings.addresses.ledger_address import LedgerAddress, LedgerUrl
from orchestrator.units import SECOND_US
from tests.simulation.clock import STILL, ProcessClock
from tests.simulation.engines.door import Door, Lines
from tests.simulation.engines.facts import Known
from tests.simulation.loop import running_loop
from tests.simulation.plan import Crash
from tests.simulation.process import Machine, Process


class Ground:
    """What all processes of a world with a server have in common."""

    def __init__(self, machine: Machine, url: str, lines: Lines) -> None:
        self.machine = machine
        self.url = url
        self.lines = lines


class _Owners(dict[str, ShardOwner]):
    """What a process is on ledgers; `joined` and `left` are called as it begins and ends to be an owner."""

    def __init__(self, joined: Callable[[], None], left: Callable[[], None]) -> None:
        super().__init__()
        self._joined, self._left = joined, left

    def __setitem__(self, name: str, owner: ShardOwner) -> None:
        super().__setitem__(name, owner)
        self._joined()

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._left()


class ServerProcess(Process):
    """One such process; its elapsed clock is fast by a `drift`."""

    def __init__(self, ground: Ground, run: int, *, crash: Crash | None = None, drift: float = 0.0) -> None:
        facts = ground.machine.facts
        super().__init__(ground.machine, run, crash=crash)
        engines = facts.engines
        assert engines is not None
        number = len(engines.processes) + 1
        self.known = Known(number, f" #{number:08x}", facts.true.now())
        engines.processes.append(self.known)
        self._drift = drift
        self.wall_us = 0
        """By how much its wall clock was set."""

        self.door = Door(
            ground.url,
            ground.lines,
            mark=self.known.mark,
            call_s=facts.plan.database_s,
            chance=random.Random(f"door {facts.plan.seed} {number}"),
            commits=self,
        )
        self._here = ThisProcess(
            mark=lambda: self.known.mark,
            elapsed=self._elapsed,
            wary_clock=partial(WaryElapsedClock, elapsed=self._elapsed, wall_ns=self._wall_ns),
        )
        self._here.owners = _Owners(self._joined, self._is_no_owner)

    def __str__(self) -> str:
        return str(self.known)

    def dependencies(self) -> Dependencies:
        """Its own."""
        engines = self._facts.plan.engines
        assert engines is not None
        boot = "boot" if engines.are_of_one_machine else f"boot of {self.known.number}"
        return msgspec.structs.replace(
            super().dependencies(),
            clock=ProcessClock(self._facts.true, lambda _now: 0, self._facts.moments),
            connect=lambda _ledger: self.door.connect,
            here=self._here,
            lock=self._server_lock,
            intake_lock=self._server_intake_lock,
            boot=lambda: boot,
        )

    def _elapsed(self) -> int:
        return round(running_loop().time() * SECOND_US * (1 + self._drift))

    def _wall_ns(self) -> int:
        return 1_000 * (self._facts.true.now() + self.wall_us)

    @property
    def is_keeper(self) -> bool:
        """Whether it looks after what belongs to no run, as far as it knows."""
        return any(taken.shard == KEEPERS for owner in self._here.owners.values() for taken in owner.shards)

    def _joined(self) -> None:
        self._facts.trace.say("world", f"{self} is an owner of the ledger")
        self.known.owned.append((self._facts.true.now(), STILL))

    def _is_no_owner(self) -> None:
        self.known.owned[-1] = (self.known.owned[-1][0], self._facts.true.now())
        self._facts.trace.say("world", f"{self} is none any more")

    # --- its locks

    def _site(self, ledger: LedgerAddress) -> ServerSite:
        assert isinstance(ledger, LedgerUrl)
        return ServerSite(ledger, connect=self.door.connect, here=self._here)

    @asynccontextmanager
    async def _server_lock(self, ledger: LedgerAddress, /, *, now: int, doing: str = "") -> AsyncIterator[None]:
        async with self._site(ledger).holding(now=now, doing=doing):
            yield

    @asynccontextmanager
    async def _server_intake_lock(self, ledger: LedgerAddress, run: str, /, *, now: int) -> AsyncIterator[IntakeRight]:
        async with self._site(ledger).holding_intake(run, now=now) as right:
            yield right

    async def _main(self, main: Callable[[Process], Awaitable[None]]) -> None:
        try:
            await super()._main(main)
        finally:
            self.known.ended(self._facts.true.now())

    # --- what befalls it

    def die(self) -> None:
        super().die()
        self.known.ended(self._facts.true.now())

    @contextmanager
    def _unable(self) -> Iterator[None]:
        began_at = self._facts.true.now()
        self.known.unable.append((began_at, STILL))
        yield
        self.known.unable.remove((began_at, STILL))
        self.known.unable.append((began_at, self._facts.true.now()))

    async def freeze(self, for_s: float) -> None:
        """It stands still for so long, and goes on with what it had."""
        if not running_loop().suspend(self):
            return
        self.door.halve()
        with self._unable():
            await anyio.sleep(for_s)
        self.door.go_on()
        running_loop().resume(self)

    async def be_cut_off(self, for_s: float, *, ledger: bool, service: bool) -> None:
        """It reaches one of them, or both, no more for so long."""
        if ledger:
            self.door.cut()
        if service:
            self._machine.network.cut_off(self, self._wire)
        with self._unable():
            await anyio.sleep(for_s)
        if ledger:
            self.door.mend()
        if service:
            self._machine.network.reconnect(self, self._wire)
