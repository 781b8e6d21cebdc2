"""Which process owns which shard of a ledger on a server: taken, asked for and given away, each by one statement.

A *shard* is the endpoints that unfinished runs use together: all that is counted at an endpoint, or by such a run, has
one process. Shard 0 has no endpoints: it is for what belongs to no run. Whoever has a lease has it until it lets go, or
is declared dead (`processes.py`); so a transaction proves that its process lives, whichever shards it is about.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.ownership.shard_bids import Pair, Shard
from orchestrator.ledger.expressions import shard_of
from orchestrator.ledger.holder_text import since_then
from orchestrator.ledger.postgres.connection import Driver
from orchestrator.ledger.processes.processes import PROCESSES, Process, ProcessNumber, statement_of
from orchestrator.ledger.processes.shard_needs import NEEDS_VERSION, ShardNeeds, shard_needs
from orchestrator.ledger.schema.retirement import COPIED_TO

OWNER: Final = statement_of("""
SELECT name, taken_at, {is_connected} AS is_connected
FROM leases JOIN processes ON processes.id = owner WHERE shard = 0
""")
"""Who has the keeper's shard; no row if nobody has."""

# One question: it is asked four times a second, by each process.
_SEEN: Final = f"""
WITH made AS (
  INSERT INTO leases (shard)
  SELECT shard FROM (SELECT 0 AS shard UNION SELECT {shard_of()} FROM endpoints) used
  WHERE NOT EXISTS (SELECT FROM leases WHERE leases.shard = used.shard) ON CONFLICT DO NOTHING RETURNING *
), lease AS (
  SELECT shard, owner, epoch, taken_at, left_at, wanted_by FROM leases
  UNION ALL SELECT shard, owner, epoch, taken_at, left_at, wanted_by FROM made
), process AS ({PROCESSES})
SELECT (SELECT coalesce(jsonb_agg(lease ORDER BY shard), '[]') FROM lease)::text AS leases,
  (SELECT coalesce(jsonb_agg(process ORDER BY id), '[]') FROM process)::text AS processes,
  ({{needs_version}}) AS needs_version
"""  # noqa: S608  text of ours
_SIGHTING: Final = _SEEN.format(needs_version="''")
_SIGHTING_WITH_NEEDS: Final = _SEEN.format(needs_version=NEEDS_VERSION)
_MERGE: Final = statement_of("UPDATE endpoints SET shard_id = $1 WHERE {its_shard} = $2")
_LEFT_BY_EITHER: Final = """
UPDATE leases SET left_at = greatest(left_at, (SELECT left_at FROM leases WHERE shard = $2)) WHERE shard = $1
"""
_BOTH: Final = statement_of(
    "SELECT shard FROM leases, ({this}) AS me WHERE owner = me.id AND shard IN ($3, $4) FOR UPDATE OF leases"
)
_SCHEMA: Final = "SELECT version_num FROM alembic_version"
_REMOVE: Final = "DELETE FROM leases WHERE shard = $1"
# Whoever waits for a row looks at that anew: it must say itself that it is free.
_TAKE: Final = statement_of("""
WITH {me}, alone AS (
  SELECT FROM leases JOIN processes ON processes.id = owner WHERE shard = 0 AND is_alone = 1 AND owner <> $1
), free AS (
  SELECT shard, handover FROM leases
  WHERE shard = ANY($3::bigint[]) AND owner IS NULL AND coalesce(wanted_by, $1) = $1
    AND NOT EXISTS (SELECT FROM alone) AND {is_known} ORDER BY shard FOR UPDATE
)
UPDATE leases SET owner = me.id, epoch = epoch + 1, wanted_by = NULL, taken_at = {now}, handover = NULL
FROM me, free WHERE leases.shard = free.shard
RETURNING leases.shard, epoch, left_at IS NOT NULL AS was_left, free.handover,
  ARRAY(SELECT endpoints.id FROM endpoints WHERE {its_shard} = leases.shard ORDER BY endpoints.id)
""")
_GIVE: Final = statement_of("""
UPDATE leases SET owner = NULL, left_at = CASE WHEN $5 THEN NULL ELSE left_at END, handover = {handed_over}
WHERE shard = $1 AND owner = $2 AND epoch = $4 RETURNING coalesce(handover, '{{}}')
""")
_WANT: Final = statement_of("""
WITH {me} UPDATE leases SET wanted_by = me.id
FROM me WHERE shard = $3 AND owner <> me.id AND coalesce(wanted_by, me.id) = me.id AND {is_known} RETURNING shard
""")
_WANT_NOTHING: Final = "UPDATE leases SET wanted_by = NULL WHERE wanted_by = $1"


class LedgerOwner(msgspec.Struct, frozen=True):
    """Whoever has the keeper's shard of a ledger."""

    name: str
    taken_at: int
    """Microseconds UTC, by the server's clock."""

    is_connected: bool
    """Whether it has a connection still, as far as the server knows."""

    @property
    def text(self) -> str:
        """Who it is and since when, as text for people."""
        return since_then(self.name, self.taken_at)


class TakenShard(msgspec.Struct, frozen=True):
    """A shard that is ours from now on."""

    shard: int
    epoch: int
    was_left: bool
    """Whether its owner before did not let go: requests of that one may still be under way."""

    handover: str | None = None
    """What an owner that let go has left of its endpoints to whoever takes it; see `core.ownership.handover`."""

    endpoints: tuple[int, ...] = ()
    """Those, as it is taken."""


class LeaseRow(msgspec.Struct, frozen=True, kw_only=True):
    """A shard, as the ledger says."""

    shard: int
    owner: int | None
    epoch: int
    """How often it was taken."""

    taken_at: int | None
    """When it was so last (microseconds UTC, by the server's clock)."""

    left_at: int | None
    """When its owner was declared dead: requests of that one may still be under way. None: it let go, or that is long
    ago.
    """

    wanted_by: int | None
    """The process that needs it, and gets it next."""

    @property
    def as_shard(self) -> Shard:
        """What those go by who bid for it."""
        return Shard(self.shard, self.owner, self.wanted_by)

    @property
    def as_taken(self) -> TakenShard:
        """What its owner has by it."""
        return TakenShard(self.shard, self.epoch, self.left_at is not None)


_leases: Final = msgspec.json.Decoder(list[LeaseRow])
_processes: Final = msgspec.json.Decoder(list[Process])


class LedgerSighting(NamedTuple):
    """How a ledger was found."""

    leases: Sequence[LeaseRow]
    """Of all shards that there are by now, the keeper's first."""

    processes: Mapping[int, Process]
    """Those that were not declared dead, by their numbers, the first that joined first."""

    needs_version: str
    """Another text once what there is to do may be something else; empty where that was not asked for."""


class Leases:
    """Those of one ledger. Everything here raises what the driver does."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def sighting(self, *, with_needs: bool = False) -> LedgerSighting:
        """Who has which, and who is there; `with_needs`: and whether there is anything else to do."""
        statement = _SIGHTING_WITH_NEEDS if with_needs else _SIGHTING
        while True:
            asked, processes, needs_version = await self._driver.fetchrow(statement)
            if leases := _leases.decode(asked):  # else another one made the first, and is seen from now on
                there = {each.id: each for each in _processes.decode(processes)}
                return LedgerSighting(leases, there, needs_version)

    async def owner(self) -> LedgerOwner | None:
        """Who has the keeper's; None if nobody has."""
        row = await self._driver.fetchrow(OWNER)
        return None if row is None else LedgerOwner(**row)

    async def needs(self) -> ShardNeeds:
        """What there is to do for owners."""
        return await shard_needs(self._driver)

    async def schema(self) -> str:
        """The version of the tables."""
        return str(await self._driver.fetchval(_SCHEMA))

    async def copied_to(self) -> str:
        """Where the ledger went, whose tables have the version `RETIRED`."""
        return str(await self._driver.fetchval(COPIED_TO))

    async def merge(self, process: ProcessNumber, pair: Pair) -> bool:
        """Makes one shard of two; False where not both are ours."""
        async with self._driver.transaction():
            mine = await self._driver.fetch(_BOTH, process.id, process.mark, *pair)
            if len(mine) == len(pair):
                await self._driver.execute(_MERGE, *pair)
                await self._driver.execute(_LEFT_BY_EITHER, *pair)
                await self._driver.execute(_REMOVE, pair.high)
        return len(mine) == len(pair)

    async def take(self, process: ProcessNumber, shards: Iterable[int]) -> list[TakenShard]:
        """Takes those of `shards` that nobody has and no other process wants; none where we were declared dead, where
        another process has the whole ledger, or a newer program has brought it to another schema.
        """
        rows = await self._driver.fetch(_TAKE, process.id, process.mark, list(shards))
        found = [
            TakenShard(shard, epoch, was_left, handover, tuple(endpoints))
            for shard, epoch, was_left, handover, endpoints in rows
        ]
        return sorted(found, key=lambda taken: taken.shard)

    async def give(
        self, process: ProcessNumber, taken: TakenShard, *, is_settled: bool, handover: str = "{}"
    ) -> str | None:
        """Lets go of one, and returns what of `handover` is left with it to the next one; None where it is not ours any
        more. It `is_settled` where nothing can be under way any more that an owner has sent which was declared dead.
        """
        left: str | None = await self._driver.fetchval(
            _GIVE, taken.shard, process.id, handover, taken.epoch, is_settled
        )
        return left

    async def want(self, process: ProcessNumber, shard: int) -> bool:
        """Asks the owner of `shard` to let go of it, for us; False where nobody else has it, or another process was
        faster to ask.
        """
        return await self._driver.fetchval(_WANT, process.id, process.mark, shard) is not None

    async def want_nothing(self, process: ProcessNumber) -> None:
        """What we have asked for, and have not got, is anybody's."""
        await self._driver.execute(_WANT_NOTHING, process.id)
