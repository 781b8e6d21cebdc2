"""Asks a server who works on a ledger there, or stands by, and which process has what of it. Changes nothing."""

# ruff: noqa: S608  all that is put together here is ours

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import UNFINISHED
from orchestrator.ledger.expressions import shard_of
from orchestrator.ledger.postgres.process_mark import IS_CONNECTED
from orchestrator.ledger.schema.job_tables import AT_SERVICE, values_check
from orchestrator.views.processes import (
    LackShown,
    LedgerProcesses,
    ProcessShown,
    ShardLackShown,
    ShardShown,
    UnservableShown,
)

_PROCESSES: Final = text(
    f"SELECT {IS_CONNECTED} AS is_connected,"
    " id, beat, name AS process, version, began_at AS since FROM processes ORDER BY id"
)
_SHARDS: Final = text(
    f"WITH used AS (SELECT {shard_of()} AS shard, array_agg(endpoint ORDER BY endpoints.id) AS endpoints,"
    " bool_or(EXISTS (SELECT FROM runs JOIN counts ON run_id = runs.id WHERE endpoint_id = endpoints.id AND n > 0"
    f" AND {values_check('counts.name', UNFINISHED)}"
    f" AND (is_released = 0 OR {values_check('counts.name', AT_SERVICE)}))) AS is_open"
    " FROM endpoints GROUP BY 1 UNION ALL SELECT 0, ARRAY[]::text[], EXISTS (SELECT FROM processes))"
    " SELECT used.shard, endpoints, is_open, owner, taken_at, left_at,"
    " (SELECT name FROM processes WHERE id = wanted_by) AS wanted_by"
    " FROM used LEFT JOIN leases USING (shard) ORDER BY used.shard"
)


NOTHING_LACKING: Final[Mapping[int, Mapping[int, str]]] = MappingProxyType({})


class PresentProcesses(msgspec.Struct, frozen=True, kw_only=True):
    """The processes of a ledger on a server at one moment."""

    processes: tuple[ProcessShown, ...]
    beats: tuple[tuple[int, int], ...]
    """The number of each of them, and of its latest beat."""

    free: tuple[ShardShown, ...]
    """The shards that nobody has, and that have unfinished runs; and that of what belongs to no run."""

    @property
    def names(self) -> dict[int, str]:
        """What each is called, by its number."""
        return {number: each.process for each, (number, _) in zip(self.processes, self.beats, strict=True)}

    def heard(self, said_at: Mapping[int, int]) -> "PresentProcesses":
        """The same, with when each last said how it stands, by its number, as far as it has."""
        processes = tuple(
            msgspec.structs.replace(each, reported_at=said_at.get(number))
            for each, (number, _) in zip(self.processes, self.beats, strict=True)
        )
        return msgspec.structs.replace(self, processes=processes)

    def shown(
        self,
        ledger: str,
        lacks: Sequence[LackShown] = (),
        lacking: Mapping[int, Mapping[int, str]] = NOTHING_LACKING,
    ) -> LedgerProcesses:
        """What people are shown of them, and of what those lack: to serve runs, and, by their numbers, which of the
        processes are `lacking` what to serve which shards.
        """
        return LedgerProcesses(
            ledger=ledger,
            processes=self.processes,
            free=self.free,
            lacks=tuple(lacks),
            unservable=tuple(self._unservable(lacking)),
        )

    def _unservable(self, lacking: Mapping[int, Mapping[int, str]]) -> Iterator[UnservableShown]:
        names = self.names
        for shard in sorted(
            (*self.free, *(shard for each in self.processes for shard in each.shards)), key=lambda each: each.shard
        ):
            lacks = {number: said[shard.shard] for number, said in lacking.items() if shard.shard in said}
            if names and lacks.keys() >= names.keys():
                yield UnservableShown(
                    shard=shard.shard,
                    endpoints=shard.endpoints,
                    lacks=tuple(ShardLackShown(process=name, why=lacks[number]) for number, name in names.items()),
                )

    def looked_at_again(self, before: "PresentProcesses") -> "PresentProcesses":
        """The same, with what it tells beside an earlier look."""
        earlier = dict(before.beats)
        processes = tuple(
            msgspec.structs.replace(each, is_beating=earlier[number] != beat if number in earlier else None)
            for each, (number, beat) in zip(self.processes, self.beats, strict=True)
        )
        return msgspec.structs.replace(self, processes=processes)


async def present_processes(view: AsyncConnection) -> PresentProcesses:
    """Those of the ledger in `view`."""
    processes = [dict(each) for each in (await view.execute(_PROCESSES)).mappings()]
    beats = tuple((each.pop("id"), each.pop("beat")) for each in processes)
    had: dict[int, list[ShardShown]] = {number: [] for number, _ in beats}
    free = []
    for row in (await view.execute(_SHARDS)).mappings():
        shard = ShardShown(
            shard=row["shard"],
            endpoints=tuple(row["endpoints"]),
            taken_at=row["taken_at"],
            left_at=row["left_at"],
            wanted_by=row["wanted_by"],
        )
        if row["owner"] is not None:
            had[row["owner"]].append(shard)
        elif row["is_open"]:
            free.append(shard)
    shown = tuple(
        ProcessShown(
            **each,
            shards=tuple(had[number]),
            stands_by=not had[number],
            is_keeper=any(not shard.shard for shard in had[number]),
        )
        for each, (number, _) in zip(processes, beats, strict=True)
    )
    return PresentProcesses(processes=shown, beats=beats, free=tuple(free))
