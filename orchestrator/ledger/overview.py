"""All runs at once, for those who look: one question of each kind, however many runs there are."""

from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.control import Wishes, wishes_by_run
from orchestrator.ledger.heartbeats import Heartbeat, heartbeats_all
from orchestrator.ledger.history import ends_since
from orchestrator.ledger.margins import Margins, margins_by_run
from orchestrator.ledger.runs import Run, counts_by_run, runs_all


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    """What the ledger says of its runs, by run, in one view. Of some there may be nothing to say."""

    runs: Sequence[Run]
    """Oldest first."""

    counts: Mapping[int, Mapping[str, int]]
    margins: Mapping[int, Margins]
    wishes: Mapping[int, Wishes]
    heartbeats: Sequence[Heartbeat]
    ends: Mapping[int, int]
    """How many jobs have ended of late."""


async def overview(connection: AsyncConnection, *, ends_from: int | None) -> Overview:
    """Every run; `ends` are those since `ends_from`, which costs a tenth of a second, or with None none."""
    return Overview(
        runs=await runs_all(connection),
        counts=await counts_by_run(connection),
        margins=await margins_by_run(connection),
        wishes=await wishes_by_run(connection),
        heartbeats=await heartbeats_all(connection),
        ends={} if ends_from is None else await ends_since(connection, since=ends_from),
    )
