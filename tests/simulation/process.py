"""One process of the program: it works on a run, or asks something of whoever does, and ends alone.

It is the program's own functions with a clock, a transport, database connections, a lock and a listener of its own;
everything else is as the command line would have it. It is a part of the world (see `loop.PART`), so it can be killed
or stand still while all others go on. The services and the network live on in any case.
"""

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TypeVarTuple

import anyio
from anyio.abc import TaskGroup

from orchestrator.client import Service, for_a_batch
from orchestrator.client.http.posts import post_notification
from orchestrator.clock import Clock
from orchestrator.engine.ports.account_endpoints import AccountEndpoints
from orchestrator.engine.ports.dependencies import Dependencies, real_account
from orchestrator.engine.runtime.poll_intervals import ASK_EVERY_S
from orchestrator.engine.runtime.process_usage import ProcessUsage
from orchestrator.errors import LedgerBusyError
from orchestrator.ledger import Connect, IntakeRight, dispatcher_lock, intake_lock
from orchestrator.settings.addresses.ledger_address import LedgerAddress, file_of
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.units import SECOND_US
from tests.engine.rows import empty_ledger
from tests.simulation.clock import STILL, ProcessClock
from tests.simulation.database import async_creator
from tests.simulation.facts import Facts
from tests.simulation.loop import PART, running_loop
from tests.simulation.network import Network, SimulatedListener
from tests.simulation.plan import Crash, Kill, Marks
from tests.simulation.receivers import HOOK, HOOK_VARIABLE, Receivers
from tests.simulation.saves import Web, let_go_of_files

Ts = TypeVarTuple("Ts")

KEYS = {"KEY_HERE": "key-0d1e2f3a4b5c6d7e", "KEY_ELSEWHERE": "key-7e6d5c4b3a2f1e0d"}
SECRETS = {
    **KEYS,
    HOOK_VARIABLE: HOOK,
    "WORKER_ID": "id-1a2b3c4d5e6f7a8b",
    "WORKER_SECRET": "secret-8f7e6d5c4b3a2910",
    "TEAM_A": "team-1f2e3d4c5b6a7980",
    "TEAM_B": "team-0897a6b5c4d3e2f1",
}
"""By the variables that hold them."""

WATCH_S = 15.0
"""Where nobody else changes a ledger: looking twice a second would take a third of the time of a world."""

SAMPLE_EVERY_S = 60.0
"""Often enough to meet kills, and no more: worlds last for hours."""

NOTHING_USED = ProcessUsage(0.0, 0)


@contextmanager
def may_break_down(facts: Facts) -> Iterator[None]:
    """Ends the world where anything is raised inside, which belongs to its seed. To cancel what is left would be in vain:
    processes that were killed are never done with it.
    """
    try:
        yield
    except (Exception, BaseExceptionGroup) as error:  # noqa: BLE001
        facts.fails(error)
        running_loop().crash()


def begin(world: TaskGroup, facts: Facts, part: Callable[[*Ts], Awaitable[None]], *args: *Ts) -> None:
    """Begins a part of the world that is no process."""

    async def main() -> None:
        with may_break_down(facts):
            await part(*args)

    world.start_soon(main)


class Machine:
    """What the processes of a world have in common."""

    def __init__(self, facts: Facts, network: Network, receivers: Receivers) -> None:
        self.facts = facts
        self.network = network
        self.receivers = receivers
        self.web = Web(facts.plan)
        self.database = random.Random(f"database {facts.plan.seed}")
        self.boot = 1
        self.processes: list[Process] = []
        """Those that are there."""

        self.holder: Process | None = None
        """Who has the ledger's lock."""

        self.has_killed = False
        """Whether the world can only end by a crash of its own."""

        self._chance = random.Random(f"cut {facts.plan.seed}")

    def kill(self, process: "Process") -> None:
        """Ends `process` as `kill -9` does, or all that there are with their machine."""
        marks, holder = self.facts.plan.marks, self.holder
        self.has_killed = True
        for each in tuple(self.processes) if marks is Marks.OF_ANOTHER_BOOT else (process,):
            each.die()
        if marks is Marks.OF_ANOTHER_BOOT:
            self.boot += 1
        elif holder is process:
            self._spoil(self.facts.ledger.with_name(f"{self.facts.ledger.name}.sent"), marks)

    def _spoil(self, file: Path, marks: Marks) -> None:
        if file.exists() and marks is Marks.REMOVED:
            file.unlink()
        if file.exists() and marks is Marks.TORN:
            os.truncate(file, self._chance.randrange(file.stat().st_size))


class Process:
    """One process, of the run of that number, on a machine whose clock is wrong by `offset_s`; it dies of `crash`."""

    def __init__(self, machine: Machine, run: int, *, crash: Crash | None, offset_s: float = 0.0) -> None:
        self.run = run
        self.stop = anyio.Event()
        """Set by who wants it to stop."""

        self.ended = anyio.Event()
        self.is_dead = False
        self._machine = machine
        self._facts = machine.facts
        self._crash = crash
        self._left = 0 if crash is None else crash.number
        self._offset_us = round(offset_s * SECOND_US)
        self._wire = machine.network.wire()

    def begin(self, tasks: TaskGroup, main: Callable[["Process"], Awaitable[None]]) -> None:
        """Begins it; `ended` tells of its end."""
        self._machine.processes.append(self)
        context = copy_context()
        context.run(PART.set, self)
        context.run(tasks.start_soon, self._main, main)

    async def _main(self, main: Callable[["Process"], Awaitable[None]]) -> None:
        try:
            with may_break_down(self._facts):
                await main(self)
        finally:
            self._machine.processes.remove(self)
            self.ended.set()

    def die(self) -> None:
        """Nothing of it runs after its step of now."""
        self.is_dead = True
        self._machine.processes.remove(self)
        self._facts.trace.say("world", f"{self} is killed")
        running_loop().kill(self)
        if self._facts.plan.saves is not None:
            let_go_of_files(self._facts.folder)
        self._machine.network.kill(self, self._wire)
        self.ended.set()

    def __str__(self) -> str:
        return f"a process of {self._facts.runs[self.run].plan.name}"

    # --- what a process is given

    def dependencies(self) -> Dependencies:
        """Its own."""

        def service(connection: ConnectionSettings, clock: Clock) -> Service:
            limits = for_a_batch(connection.limits)
            return Service(connection.serverless_url, connection.api_key, clock, limits=limits, transport=self._wire)

        machine, facts = self._machine, self._facts
        is_alone = not (facts.plan.side_by_side or facts.plan.askings)
        return Dependencies(
            clock=ProcessClock(facts.true, lambda now: self._offset_us + facts.sky.clock_offset_us(now), facts.moments),
            environ=SECRETS,
            account=real_account if facts.account is None else self._account,
            service=service,
            connect=self._connect,
            usage=lambda: NOTHING_USED,
            sample_every_s=SAMPLE_EVERY_S,
            watch_every_s=WATCH_S if is_alone else ASK_EVERY_S,
            lock=self._lock,
            intake_lock=self._intake_lock,
            open_files=lambda: 1_024,
            boot=lambda: f"boot {machine.boot}",
            fetch_link=machine.web.fetch,
            post_hook=partial(post_notification, transport=machine.receivers),
            listener=lambda app, _address: SimulatedListener(app, machine.network),
        )

    def _account(self, _service: Service, _rest_url: str) -> AccountEndpoints:
        assert self._facts.account is not None
        return self._facts.account

    def _connect(self, path: Path) -> Connect:
        return async_creator(empty_ledger(path), delay=self._delay, commits=self)

    # --- the moments at which it may die

    def _delay(self) -> float:
        self._count(Kill.CALL)
        return self._machine.database.uniform(0, self._facts.plan.database_s)

    def committing(self) -> bool:
        return not self._count(Kill.BEFORE_COMMIT)

    def committed(self) -> None:
        self._count(Kill.AFTER_COMMIT)

    def _count(self, kill: Kill) -> bool:
        if self._crash is None or self._crash.kill is not kill or self.is_dead:
            return False
        self._left -= 1
        if self._left == 0:
            self._machine.kill(self)
        return self.is_dead

    # --- its locks

    @asynccontextmanager
    async def _lock(self, ledger: LedgerAddress, /, *, now: int, doing: str = "") -> AsyncIterator[None]:
        machine, lives, true = self._machine, self._facts.lives, self._facts.true
        if machine.holder is not None:
            raise LedgerBusyError(f"{ledger}: {machine.holder} is working on this ledger")
        with ExitStack() as works:
            works.enter_context(dispatcher_lock(file_of(ledger), now=now, doing=doing))
            machine.holder, life, began_at = self, len(lives), true.now()
            lives.append((began_at, STILL))

            def works_no_more() -> None:
                machine.holder, lives[life] = None, (began_at, true.now())

            works.callback(works_no_more)
            with _perishing(works.pop_all()):
                yield

    @asynccontextmanager
    async def _intake_lock(self, ledger: LedgerAddress, run: str, /, *, now: int) -> AsyncIterator[IntakeRight]:
        with ExitStack() as holds:
            holds.enter_context(intake_lock(file_of(ledger), run, now=now))
            with _perishing(holds.pop_all()):
                yield IntakeRight()


class _Held:
    """Real locks of the ledger's, which a kill takes away as the system does."""

    def __init__(self, locks: ExitStack) -> None:
        self._locks = locks

    def abandon(self) -> None:
        self._locks.close()


@contextmanager
def _perishing(locks: ExitStack) -> Iterator[None]:
    held = _Held(locks)
    running_loop().perishes(held)
    try:
        yield
    finally:
        running_loop().outlives(held)
        held.abandon()
