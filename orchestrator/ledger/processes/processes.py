"""The processes that work on a ledger on a server, or stand by: a row for each, from its first bid until its death.

A process raises its beat. Whoever sees that stand still declares it dead: the row is removed, and all that it owned
becomes free, in one transaction, which counts only if the beat is still the one that was seen. Whoever finds its own
row gone is dead for good: it may come back under another number, and proves nothing by the one it had. No clock
decides; see `core.ownership.lease`.

A process that was stopped in the midst of a transaction holds its locks for ever, and the server ends neither one that
waits between two messages nor one of which half a message has come. So its connections are ended first, whose names end
with the same mark (`postgres/process_mark.py`). Numbers may be given twice, by a standby that was promoted too early;
marks are not.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec

from orchestrator import __version__
from orchestrator.core.ownership.beat_watch import Beat
from orchestrator.core.ownership.lease import PROCESSES_MAX
from orchestrator.errors import LostCommitsError
from orchestrator.ledger.expressions import shard_of
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.postgres.connection import Driver
from orchestrator.ledger.postgres.identity.lost_commits import IS_WHOLE, is_loss_noted, note_loss
from orchestrator.ledger.postgres.process_mark import IS_CONNECTED, MAY_BE_ENDED, has_mark
from orchestrator.ledger.postgres.server_clock import NOW_US
from orchestrator.ledger.schema.job_tables import SCHEMA_VERSION

ENDED_MS_MAX: Final = 1_000
"""How long a connection may take until it has ended."""

_THIS: Final = "SELECT id FROM processes WHERE id = $1 AND mark = $2"
# Beats are no updates of a key, and wait for no proof; whoever removes the row waits for all.
_ME: Final = f"me AS ({_THIS} FOR KEY SHARE)"

_HANDED_OVER: Final = f"""(
  SELECT jsonb_object_agg(endpoints.id, $3::text::jsonb -> endpoints.id::text)::text FROM endpoints
  WHERE {shard_of()} = leases.shard AND $3::text::jsonb ? endpoints.id::text
)"""  # noqa: S608  text of ours

_IS_KNOWN: Final = f"(SELECT version_num FROM alembic_version) <= '{SCHEMA_VERSION}'"  # noqa: S608  text of ours
"""A newer program may have brought the tables up while this one had nothing of the ledger."""


def statement_of(template: str) -> str:
    """A statement with what several have in common: the server's time, the row of a process that asks, whether one is
    connected, whether a connection may be ended, what is told by $3 of the endpoints of a shard that is let go of,
    whether this program knows the tables, and the shard of an endpoint.
    """
    return template.format(
        now=NOW_US,
        me=_ME,
        this=_THIS,
        is_connected=IS_CONNECTED,
        is_this_ones=has_mark("$1::text"),
        may_be_ended=MAY_BE_ENDED,
        is_whole=IS_WHOLE,
        handed_over=_HANDED_OVER,
        is_known=_IS_KNOWN,
        its_shard=shard_of(),
    )


PROCESSES: Final = "SELECT id, slot, name, version, mark, began_at, is_alone = 1 AS is_alone, beat FROM processes"
"""Those that were not declared dead."""

_JOIN: Final = statement_of("""
INSERT INTO processes (slot, name, version, mark, is_alone, began_at)
SELECT slot, concat($1::text, CASE WHEN EXISTS (SELECT FROM processes WHERE name = $1) THEN concat(', ', slot + 1) END),
  $2, $3, $5, {now} FROM generate_series(0, $4 - 1) AS each (slot), ({is_whole}) AS whole
WHERE NOT EXISTS (SELECT FROM processes WHERE processes.slot = each.slot) ORDER BY slot LIMIT 1
ON CONFLICT (slot) DO NOTHING RETURNING id, slot
""")
_COUNT: Final = "SELECT count(*) FROM processes"
_BEAT: Final = "UPDATE processes SET beat = beat + 1 WHERE id = $1 AND mark = $2 RETURNING beat"
_FENCE: Final = "SELECT 1 FROM processes WHERE id = {id:d} AND mark = '{mark}' FOR KEY SHARE"
_END: Final = statement_of("""
SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity
WHERE {may_be_ended} AND pid <> pg_backend_pid() AND {is_this_ones}
""")
_IS_CONNECTED: Final = statement_of("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE {is_this_ones})")
# Each statement sees what was committed before it: also what the process took while its row was waited for.
_LOCK: Final = statement_of("{this} FOR UPDATE")
_LOCK_IF_SILENT: Final = statement_of("{this} AND beat = $3 FOR UPDATE")
_FREE: Final = statement_of("""
UPDATE leases SET owner = NULL, left_at = CASE WHEN shard = ANY($2::bigint[]) THEN NULL ELSE left_at END,
  handover = {handed_over}
WHERE owner = $1
""")
_LEFT: Final = statement_of("UPDATE leases SET owner = NULL, left_at = {now} WHERE owner = $1")
_REMOVE: Final = "DELETE FROM processes WHERE id = $1"


class ProcessKind(IntEnum):
    """What a process means to have of a ledger, as its column `is_alone` says."""

    SHARES = 0
    """Whatever it can serve of it that others do not."""

    ALONE = 1
    """All, or nothing."""

    FOR_RUN = 2
    """What a run of its own needs; the rest only where nobody else has it."""


class ProcessName(msgspec.Struct, frozen=True):
    """What a process is called."""

    name: str
    """By people."""

    mark: str
    """What the names of all its connections end with, and those of no other process."""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process as the ledger says."""

    id: int
    slot: int
    name: str
    version: str
    """That of the program."""

    mark: str
    began_at: int
    """Microseconds UTC, by the server's clock."""

    is_alone: bool
    """Whether it has the whole ledger, or nothing."""

    beat: int

    @property
    def latest_beat(self) -> Beat:
        """What is watched of it."""
        return Beat(self.id, self.beat)

    @property
    def text(self) -> str:
        """Who it is and since when, as text for people."""
        return since_then(self.name, self.began_at)


class ProcessNumber(msgspec.Struct, frozen=True, kw_only=True):
    """What a process that has joined goes by, until its death."""

    id: int
    slot: int
    """Its own among those that live, from 0 on, below `PROCESSES_MAX`."""

    mark: str

    @property
    def fence(self) -> str:
        """The statement that finds one row as long as it was not declared dead, and keeps it so until the transaction
        has ended.
        """
        return _FENCE.format(id=self.id, mark=self.mark.replace("'", "''"))


class Processes:
    """Those of one ledger, by a connection on which nothing is written but who owns it: a beat never waits for that.

    Everything here raises what the driver does.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def join(self, process: ProcessName, kind: ProcessKind = ProcessKind.SHARES) -> ProcessNumber | None:
        """A new number for `process`, which is of that `kind`; None where there are `PROCESSES_MAX` already.
        Where another one is called the same, it has a number behind its name.

        Raises `LostCommitsError` where the server has lost what it had confirmed, and nobody has accepted that.
        """
        while True:
            row = await self._driver.fetchrow(_JOIN, process.name, __version__, process.mark, PROCESSES_MAX, int(kind))
            if row is not None:
                return ProcessNumber(mark=process.mark, **row)
            if await is_loss_noted(self._driver):
                raise LostCommitsError
            if await self._driver.fetchval(_COUNT) >= PROCESSES_MAX:
                return None  # else another one was faster

    async def beat(self, process: ProcessNumber) -> int | None:
        """Says that it lives, for the how manieth time; None where it was declared dead."""
        number: int | None = await self._driver.fetchval(_BEAT, process.id, process.mark)
        return number

    async def note_loss(self) -> None:
        """The server has lost what it had confirmed: all are dead, and nobody joins until somebody accepts that."""
        await note_loss(self._driver)

    async def is_connected(self, process: Process) -> bool:
        """Whether it has a connection still, as far as the server knows."""
        return bool(await self._driver.fetchval(_IS_CONNECTED, process.mark))

    async def leave(self, process: ProcessNumber, *, settled: Sequence[int] = (), handover: str = "{}") -> None:
        """Ends it in order: what it owns is let go of. Of a shard in `settled` nothing can be under way any more that a
        process has sent which was declared dead. `handover` is what it leaves to those that come next.
        """
        async with self._driver.transaction():
            if await self._driver.fetchval(_LOCK, process.id, process.mark) is not None:
                await self._driver.execute(_FREE, process.id, settled, handover)
                await self._driver.execute(_REMOVE, process.id)

    async def declare_dead(self, silent: Process) -> bool:
        """Ends one whose beat has stood still: its transactions, and its right to what it owns. False where it lives,
        or somebody was faster.
        """
        await self._driver.execute(_END, silent.mark, ENDED_MS_MAX)
        async with self._driver.transaction():
            is_silent = await self._driver.fetchval(_LOCK_IF_SILENT, silent.id, silent.mark, silent.beat) is not None
            if is_silent:
                await self._driver.execute(_LEFT, silent.id)
                await self._driver.execute(_REMOVE, silent.id)
        return is_silent
