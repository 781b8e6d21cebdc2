"""One intake at a time for each run of a ledger on a server: locks of a session, which the server gives up with its
connection. Who holds one is told by the name of that connection. Where that is lost the lock is taken anew: a server
that is begun anew, or a line that was cut, must not end an intake of hours.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from orchestrator.errors import IntakeBusyError
from orchestrator.ledger.holder_text import process_name, since_then
from orchestrator.ledger.postgres.connection import Connect, Driver, LineBounds, watch_over
from orchestrator.ledger.postgres.database import BACKEND, END_BACKEND
from orchestrator.ledger.postgres.process_mark import connection_name, people_name
from orchestrator.ledger.postgres.server_errors import server_errors
from orchestrator.ledger.runs.intakes import IntakeRight

log = logging.getLogger(__name__)

_INTAKES: Final = 1869767530
"""The kind of our locks; the number beside it is that of the run in its schema."""

_TAKE: Final = "SELECT pg_try_advisory_lock($2, hashtext(current_schema() || '.' || $1))"
_HOLDER: Final = """
SELECT application_name, (extract(epoch FROM backend_start) * 1000000)::bigint
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND classid = $2 AND objid = (hashtext(current_schema() || '.' || $1))::oid
  AND objsubid = 2 AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
LET_GO_S_MAX: Final = 5.0
AGAIN_S: Final = 0.25
REFUSED_MAX: Final = 8
"""Our own connection, of which the server may not know yet that it is gone, ends within so many tries."""


class ServerIntakeLock(IntakeRight):
    """The right to take rows in for the run called `run` of the ledger `name`, once it was taken."""

    def __init__(self, name: str, connect: Connect, run: str) -> None:
        self._name = name
        self._connect = connect
        self._run = run
        self._driver: Driver = None
        self._lost = anyio.Event()
        self._is_let_go = False
        self._backend: tuple[object, ...] | None = None
        """The server's process of our connection, or of the last one."""

    @property
    def is_lost(self) -> bool:
        """Whether somebody else can have it, as far as this end of the connection knows."""
        return self._lost.is_set()

    async def take(self) -> None:
        """Raises `IntakeBusyError`, which says who takes in, and `StorageError`."""
        called = {"application_name": connection_name(process_name("reading rows"))}
        with server_errors(self._name):
            driver = await self._connect(called, LineBounds())
            try:
                await self._lock(driver)
            except BaseException:
                driver.terminate()
                raise
        self._driver, self._lost = driver, anyio.Event()
        driver.add_termination_listener(self._on_end)
        if self._is_let_go:  # meanwhile: what was let go of then was the connection before this one
            await self.let_go()

    async def _lock(self, driver: Driver) -> None:
        watch_over(driver)
        if self._backend is not None:
            await driver.execute(END_BACKEND, *self._backend)
        if not await driver.fetchval(_TAKE, self._run, _INTAKES):
            raise IntakeBusyError(f"{await _holder(driver, self._run)} is reading rows for the run {self._run!r}")
        self._backend = tuple(await driver.fetchrow(BACKEND))

    def _on_end(self, _: Driver) -> None:
        self._lost.set()

    async def keep(self) -> None:
        """Takes it anew whenever its connection was lost, until it is let go of or somebody else has it."""
        refused = 0
        while refused < REFUSED_MAX:
            await self._lost.wait()
            if self._is_let_go:
                return
            try:
                await self.take()
                refused = 0
            except IntakeBusyError:
                refused += 1
            except Exception as error:  # noqa: BLE001  what the driver raises for a lost line is as varied as its moments
                log.debug("the right to take in for %s is lost: %s", self._run, error)
            if self.is_lost:
                await anyio.sleep(AGAIN_S)

    async def let_go(self) -> None:
        """Gives it up at once: what a connection held is free only some time after its end."""
        self._is_let_go = True
        with anyio.CancelScope(shield=True), suppress(Exception):
            await self._driver.execute("SELECT pg_advisory_unlock_all()", timeout=LET_GO_S_MAX)
        self._driver.terminate()
        self._lost.set()


@asynccontextmanager
async def server_intake_lock(name: str, connect: Connect, run: str) -> AsyncIterator[ServerIntakeLock]:
    """Holds the right to take rows in for the run called `run` of the ledger `name` while the block runs, in this
    process or another. Raises `IntakeBusyError`, which says who takes in, and `StorageError`.
    """
    lock = ServerIntakeLock(name, connect, run)
    await lock.take()
    try:
        yield lock
    finally:
        await lock.let_go()


async def _holder(driver: Driver, run: str) -> str:
    found = await driver.fetchrow(_HOLDER, run, _INTAKES)
    return "another process" if found is None else holder_text(*found)


def holder_text(name: str, since: int | None) -> str:
    """Who holds a lock, as text for people. The server keeps from some roles since when."""
    who = people_name(name)
    return who if since is None else since_then(who, since)
