"""One intake at a time for each run of a ledger on a server: locks of a session, which the server gives up with its
connection. Who holds one is told by the name of that connection.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio

from orchestrator.errors import IntakeBusyError
from orchestrator.ledger.holder_text import process_name, since_then
from orchestrator.ledger.postgres.connection import Connect, Driver, LineBounds, watch_over
from orchestrator.ledger.postgres.process_mark import connection_name, people_name

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


@asynccontextmanager
async def server_intake_lock(connect: Connect, run: str) -> AsyncIterator[None]:
    """Holds the right to take rows in for the run called `run` while the block runs, in this process or another.

    Raises `IntakeBusyError`, which says who takes in.
    """
    driver = await _connected(connect)
    try:
        if not await driver.fetchval(_TAKE, run, _INTAKES):
            raise IntakeBusyError(f"{await _holder(driver, run)} is reading rows for the run {run!r}")
        yield
    finally:
        await _let_go(driver)


async def _connected(connect: Connect) -> Driver:
    driver = await connect({"application_name": connection_name(process_name("reading rows"))}, LineBounds())
    watch_over(driver)
    return driver


async def _let_go(driver: Driver) -> None:
    """Gives up the lock at once: what a connection held is free only some time after its end."""
    with anyio.CancelScope(shield=True), suppress(Exception):
        await driver.execute("SELECT pg_advisory_unlock_all()", timeout=LET_GO_S_MAX)
    driver.terminate()


async def _holder(driver: Driver, run: str) -> str:
    found = await driver.fetchrow(_HOLDER, run, _INTAKES)
    return "another process" if found is None else holder_text(*found)


def holder_text(name: str, since: int | None) -> str:
    """Who holds a lock, as text for people. The server keeps from some roles since when."""
    who = people_name(name)
    return who if since is None else since_then(who, since)
