"""One dispatcher for each ledger on a server, and one intake at a time for each of its runs: locks of a session.

The server gives up a lock with the connection that holds it. Who holds one is told by the name of that connection.
"""

import asyncio
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio
from sqlalchemy import text

from orchestrator.errors import IntakeBusyError, LedgerBusyError
from orchestrator.ledger.database import LedgerDatabase
from orchestrator.ledger.holder_text import left_behind, since_then
from orchestrator.ledger.postgres.connection import Connect, Driver, LineBounds, watch_over
from orchestrator.ledger.postgres.server_errors import ADVICE
from orchestrator.settings.addresses.ledger_address import LedgerUrl

_LEDGERS: Final = 1869767529
_INTAKES: Final = 1869767530
"""The kinds of our locks; the number beside it is that of the schema, or of a run in it."""

_SCHEMA: Final = "to_regnamespace(current_schema())::oid::int"
_RUN: Final = "hashtext(current_schema() || '.' || $1)"
_HOLDER: Final = """
SELECT application_name, (extract(epoch FROM backend_start) * 1000000)::bigint
FROM pg_locks JOIN pg_stat_activity USING (pid)
WHERE locktype = 'advisory' AND granted AND classid = {kind} AND objid = ({number})::oid AND objsubid = 2
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
HOLDER: Final = text(_HOLDER.format(kind=_LEDGERS, number=_SCHEMA))

NAME_BYTES_MAX: Final = 63
"""The server cuts off what is longer."""

HOST_CHARS_MAX: Final = 24
OURS: Final = "orchestrator "
"""The names of our connections begin so."""

BEAT_S: Final = 2.0
ANSWERED_S_MAX: Final = 5.0
"""How often we ask whether the connection that holds a lock is still there, and for how long: well before the server
gives us up, which sends signs of life (`SILENT_S`) as well.
"""


class _Held:
    """A lock that this process holds, as long as its connection lasts."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.loop = asyncio.get_running_loop()
        self._asked_at = self.loop.time()

    @property
    def is_lost(self) -> bool:
        return bool(self._driver.is_closed())

    async def look(self) -> None:
        """Ends the connection where it leads to nobody."""
        if self.is_lost or self.loop.time() < self._asked_at + BEAT_S:
            return
        with anyio.CancelScope(shield=True):
            try:
                await self._driver.fetchval("SELECT 1", timeout=ANSWERED_S_MAX)
            except Exception:  # noqa: BLE001  as varied as the ways in which it can be cut
                self._driver.terminate()
        self._asked_at = self.loop.time()


_held: Final[dict[str, _Held]] = {}
"""By the ledgers that this process holds: nobody else can tell whether what holds them still runs."""


@asynccontextmanager
async def server_lock(url: LedgerUrl, connect: Connect, *, doing: str = "") -> AsyncIterator[None]:
    """Holds the ledger's lock while the block runs; `doing` is for those who ask what its holder does.

    Raises `LedgerBusyError`, which says who holds it, and `UsageError` where it is held by a part of this process that
    has ended.
    """
    driver = await _connected(connect, doing)
    try:
        if not await driver.fetchval(f"SELECT pg_try_advisory_lock({_LEDGERS}, {_SCHEMA})"):
            refuse_abandoned_session(url)
            held_by = await _holder(driver, _LEDGERS, _SCHEMA)
            raise LedgerBusyError(
                f"{url}: {held_by} is working on this ledger; wait for it, stop it, or use another <setting ledger>"
            )
        _held[str(url)] = _Held(driver)
        try:
            yield
        finally:
            del _held[str(url)]
    finally:
        await _let_go(driver)


@asynccontextmanager
async def server_intake_lock(connect: Connect, run: str) -> AsyncIterator[None]:
    """Holds the right to take rows in for the run called `run` while the block runs, in this process or another.

    Raises `IntakeBusyError`, which says who takes in.
    """
    driver = await _connected(connect, "reading rows")
    try:
        if not await driver.fetchval(f"SELECT pg_try_advisory_lock({_INTAKES}, {_RUN})", run):
            raise IntakeBusyError(f"{await _holder(driver, _INTAKES, _RUN, run)} is reading rows for the run {run!r}")
        yield
    finally:
        await _let_go(driver)


async def _connected(connect: Connect, doing: str) -> Driver:
    driver = await connect({"application_name": signature(doing)}, LineBounds())
    watch_over(driver)
    return driver


async def _let_go(driver: Driver) -> None:
    """Gives up the lock at once: what a connection held is free only some time after its end."""
    with anyio.CancelScope(shield=True), suppress(Exception):
        await driver.execute("SELECT pg_advisory_unlock_all()", timeout=ANSWERED_S_MAX)
    driver.terminate()


async def _holder(driver: Driver, kind: int, number: str, *parameters: str) -> str:
    found = await driver.fetchrow(_HOLDER.format(kind=kind, number=number), *parameters)
    return "another process" if found is None else holder_text(*found)


async def session_holder(database: LedgerDatabase) -> tuple[str, int | None] | None:
    """The name of the connection that holds the ledger's lock, and since when (microseconds UTC); None: nobody does."""
    return await database.asked(HOLDER, None, _only)


def _only(found: Any) -> tuple[str, int | None] | None:
    row = found.first()
    return None if row is None else (str(row[0]), row[1])


def holder_text(name: str, since: int | None) -> str:
    """Who holds a lock, as text for people. The server keeps from some roles since when."""
    who = name.removeprefix(OURS) or "another process"
    return who if since is None else since_then(who, since)


def signature(doing: str) -> str:
    """What the connection of a lock is called, in ASCII and as long as the server allows."""
    host = platform.node().partition(".")[0][:HOST_CHARS_MAX]
    text = f"{OURS}process {os.getpid()} on {host}"
    room = NAME_BYTES_MAX - len(text) - len(" ()")
    what = doing.removeprefix(OURS).encode("ascii", "replace").decode()
    if not what or room <= 0:
        return text[:NAME_BYTES_MAX]
    return f"{text} ({what if len(what) <= room else what[: room - 2] + '..'})"


def is_session_ours(url: LedgerUrl) -> bool:
    """Whether it is this very process that holds the ledger's lock."""
    return str(url) in _held


async def ask_session(url: LedgerUrl) -> None:
    """Asks now and then whether the connection of our lock, if there is one, still leads to anybody."""
    if (held := _held.get(str(url))) is not None:
        await held.look()


def why_lost(url: LedgerUrl) -> str | None:
    """Why the lock of this process holds no more; None where it does, or there is none."""
    held = _held.get(str(url))
    if held is None or not held.is_lost:
        return None
    return f"{url}: the connection that keeps others from this ledger was lost, so nothing more is sent; {ADVICE['08']}"


def refuse_abandoned_session(url: LedgerUrl) -> None:
    """Raises `UsageError` where this process holds the ledger's lock in an event loop that is closed."""
    held = _held.get(str(url))
    if held is not None and held.loop.is_closed():
        raise left_behind(f"{url}:")
