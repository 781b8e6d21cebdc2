"""Which shards of a ledger on a server need an owner, and which have come to be one.

Nobody has to own an endpoint where nothing is left to be done: there may be years of them.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from orchestrator.core.jobs.lifecycle import UNFINISHED
from orchestrator.core.ownership.shard_bids import Pair
from orchestrator.ledger.expressions import shard_of
from orchestrator.ledger.postgres.connection import Driver
from orchestrator.ledger.schema.job_tables import AT_SERVICE

_AT_SERVICE: Final = sorted(AT_SERVICE)
_PLACES: Final = f"""
WITH counted AS (
  SELECT run_id, bool_or(name = ANY($1::text[])) AS is_at_service FROM counts
  WHERE n > 0 AND name = ANY($2::text[]) GROUP BY run_id
), at_work AS (
  SELECT id, endpoint_id FROM runs LEFT JOIN counted ON run_id = id
  WHERE (intake_accepted > 0 AND run_id IS NOT NULL AND (is_released = 0 OR is_at_service))
    OR id IN (SELECT run_id FROM commands WHERE done_at IS NULL)
    OR id IN (SELECT run FROM pod_leases WHERE ended_at IS NULL)
), served AS (
  SELECT endpoint_id, array_agg(id ORDER BY id) AS ids FROM (
    SELECT endpoint_id, id FROM at_work
    UNION SELECT run_endpoints.endpoint_id, id FROM run_endpoints JOIN at_work ON id = run_id
  ) used GROUP BY endpoint_id
), needed AS (
  SELECT endpoint_id FROM served
  UNION SELECT endpoint_id FROM submissions WHERE cancel_at IS NOT NULL
  UNION SELECT endpoint_id FROM batches WHERE ended_at IS NULL
  UNION SELECT endpoint_id FROM loans
)
SELECT id AS endpoint, {shard_of()} AS shard, endpoint AS name,
  id IN (SELECT endpoint_id FROM needed) AS is_needed, coalesce(ids, ARRAY[]::bigint[]) AS runs
FROM endpoints LEFT JOIN served ON endpoint_id = id ORDER BY id
"""  # noqa: S608  text of ours
_PAIRS: Final = f"""
SELECT DISTINCT least(one, other) AS low, greatest(one, other) AS high FROM (
  SELECT {shard_of("a")} AS one, {shard_of("b")} AS other
  FROM run_endpoints JOIN runs ON runs.id = run_id
  JOIN endpoints a ON a.id = runs.endpoint_id JOIN endpoints b ON b.id = run_endpoints.endpoint_id
) used WHERE one <> other ORDER BY low, high
"""  # noqa: S608
NEEDS_VERSION: Final = """
SELECT concat(sum(signals), ' ', (SELECT string_agg(shard::text, ',' ORDER BY shard) FROM leases)) FROM writers
"""
"""Another text once anybody has signalled something, or there is another shard: it costs less to ask for than needs."""


class ShardPlace(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint, as part of a shard."""

    endpoint: int
    shard: int
    name: str
    """What the service calls it."""

    is_needed: bool
    """Whether anything is to be done there: a run uses it that has something to do and that nobody has released, or to
    which a command waits; jobs may be at the service, or are to be cancelled there; a pod or workers are paid for.
    """

    runs: Sequence[int] = ()
    """The runs of those."""


class ShardNeeds(NamedTuple):
    """What there is to do for the owners of shards."""

    places: Sequence[ShardPlace] = ()
    """All endpoints that runs have ever used."""

    pairs: Sequence[Pair] = ()
    """The shards that have come to be one, because runs have endpoints of both."""

    @property
    def shards(self) -> set[int]:
        """Those where anything is to be done."""
        return {place.shard for place in self.places if place.is_needed}

    @property
    def runs(self) -> set[int]:
        """The runs for which anything is to be done."""
        return {run for place in self.places for run in place.runs}

    def runs_of_shards(self) -> dict[int, list[int]]:
        """The runs of each shard where anything is to be done."""
        found: dict[int, list[int]] = {}
        for place in self.places:
            if place.is_needed:
                found.setdefault(place.shard, []).extend(place.runs)
        return found

    def of(self, shard: int) -> list[ShardPlace]:
        """The endpoints that are in `shard`."""
        return [place for place in self.places if place.shard == shard]


async def shard_needs(driver: Driver) -> ShardNeeds:
    """What there is to do now. Raises what the driver does."""
    places = [ShardPlace(**row) for row in await driver.fetch(_PLACES, _AT_SERVICE, UNFINISHED)]
    return ShardNeeds(places, [Pair(*row) for row in await driver.fetch(_PAIRS)])
