"""Who owns a ledger on a server: taken, beaten for, taken over and let go of, each by one statement.

A process has a row as long as it owns anything. Whoever finds its own gone has been deposed, and never comes back
under its number: the row is removed and the lease given to another one by the same statement, which counts only if the
beat is still the one that was seen to stand still. No clock decides; see `core.ownership.lease`.

An owner that was stopped in the midst of a transaction holds its locks for ever, and the server ends neither one that
waits between two messages nor one of which half a message has come. So its successor ends its connections first, whose
names end with the same mark (`postgres/process_mark.py`).
"""

from typing import Final

import msgspec

from orchestrator.core.ownership.beat_watch import Beat
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.postgres.connection import Driver

ENDED_MS_MAX: Final = 1_000
"""How long a connection may take until it has ended."""

# There is one lease, number 0, for the whole ledger.
_ITS: Final = "datname = current_database() AND right(application_name, length({mark})) = {mark}"
_OWNER: Final = """
SELECT owner, epoch, beat, name, mark, taken_at,
  EXISTS (SELECT FROM pg_stat_activity WHERE {its}) AS is_connected
FROM leases JOIN processes ON processes.id = owner WHERE shard = 0
"""
OWNER: Final = _OWNER.format(its=_ITS.format(mark="mark"))
_GIVEN: Final = """
WITH free AS ({free}), me AS (INSERT INTO processes (name, mark) SELECT $1, $2 FROM free RETURNING id)
UPDATE leases SET owner = me.id, epoch = epoch + 1,
  taken_at = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
FROM me WHERE shard = 0 RETURNING owner, epoch
"""
# Whoever waits for the row looks at that anew, but not into another table: so it must say itself that it is free.
_FREE: Final = "SELECT shard FROM leases WHERE shard = 0 AND owner IS NULL FOR UPDATE"
_TAKE: Final = _GIVEN.format(free=_FREE)
_SILENT: Final = "DELETE FROM processes WHERE id = $3 AND beat = $4 RETURNING id"
_TAKE_OVER: Final = _GIVEN.format(free=_SILENT)
_END_THOSE: Final = """
SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity
WHERE usename = current_user AND pid <> pg_backend_pid() AND {its}
"""
_END: Final = _END_THOSE.format(its=_ITS.format(mark="$1::text"))
_FENCE: Final = "SELECT 1 FROM leases WHERE shard = 0 AND owner = {owner:d} AND epoch = {epoch:d} FOR SHARE"
_BEAT: Final = "UPDATE processes SET beat = beat + 1 WHERE id = $1 RETURNING beat"
_LEAVE: Final = """
WITH gone AS (DELETE FROM processes WHERE id = $1 RETURNING id)
UPDATE leases SET owner = NULL FROM gone WHERE owner = gone.id
"""


class ProcessName(msgspec.Struct, frozen=True):
    """What a process is called."""

    name: str
    """By people."""

    mark: str
    """What the names of all its connections end with, and those of no other process."""


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that owns a ledger, as the ledger says."""

    owner: int
    epoch: int
    beat: int
    name: str
    mark: str
    taken_at: int
    """Microseconds UTC, by the server's clock."""

    is_connected: bool
    """Whether it has a connection still, as far as the server knows."""

    @property
    def text(self) -> str:
        """Who it is and since when, as text for people."""
        return since_then(self.name, self.taken_at)

    @property
    def latest_beat(self) -> Beat:
        """What is watched of it."""
        return Beat(self.owner, self.beat)


class LeaseProof(msgspec.Struct, frozen=True):
    """What a process proves its right to write by."""

    owner: int
    epoch: int

    @property
    def fence(self) -> str:
        """The statement that finds one row as long as that holds, and keeps it so until the transaction has ended."""
        return _FENCE.format(owner=self.owner, epoch=self.epoch)


class Leases:
    """Those of one ledger, by a connection on which nothing else is asked: a beat never waits for who writes.

    Everything here raises what the driver does.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def owner(self) -> Owner | None:
        """Who owns the ledger; None if nobody does."""
        row = await self._driver.fetchrow(OWNER)
        return None if row is None else Owner(**row)

    async def take(self, process: ProcessName) -> LeaseProof | None:
        """Takes it for `process`; None where somebody has it."""
        return _proof(await self._driver.fetchrow(_TAKE, process.name, process.mark))

    async def take_over(self, silent: Owner, process: ProcessName) -> LeaseProof | None:
        """Takes it for `process` from one whose beat has stood still; None where that lives, or somebody was faster."""
        await self._driver.execute(_END, silent.mark, ENDED_MS_MAX)
        row = await self._driver.fetchrow(_TAKE_OVER, process.name, process.mark, silent.owner, silent.beat)
        return _proof(row)

    async def beat(self, proof: LeaseProof) -> bool:
        """Says that its owner lives; False where it was deposed."""
        return await self._driver.fetchval(_BEAT, proof.owner) is not None

    async def leave(self, proof: LeaseProof) -> None:
        """Lets go of it: whoever comes next need not wait."""
        await self._driver.execute(_LEAVE, proof.owner)


def _proof(row: object) -> LeaseProof | None:
    return None if row is None else LeaseProof(*row)  # type: ignore[misc]  # a record of the driver's, which has no types
