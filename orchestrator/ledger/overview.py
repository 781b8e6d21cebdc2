"""All runs at once, for those who look: one question of each kind, however many runs there are."""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from orchestrator.ledger.control import Wishes
from orchestrator.ledger.doors import Doors
from orchestrator.ledger.heartbeats import Heartbeat, Heartbeats
from orchestrator.ledger.history import History
from orchestrator.ledger.margins import Margins, MarginsOfRuns
from orchestrator.ledger.runs import Run, Runs


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


async def overview(doors: Doors, *, ends_from: int | None, among: Collection[int] | None = None) -> Overview:
    """Every run, or those of these numbers; `ends` are those since `ends_from`, which costs a tenth of a second, or
    with None none.
    """
    async with doors.reading() as connection:
        view = doors.within(connection)
        return Overview(
            runs=await Runs(view).all(among),
            counts=await Runs(view).counts_by_run(among),
            margins=await MarginsOfRuns(view).by_run(among),
            wishes={run: asked.wishes for run, asked in (await Runs(view).asked()).items()},
            heartbeats=await Heartbeats(view).all(),
            ends={} if ends_from is None else await History(view).ends_since(ends_from),
        )
