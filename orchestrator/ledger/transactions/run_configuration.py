"""Stores other settings of a run, and what of its results is to be done by them."""

from collections import Counter
from typing import Final

import msgspec
from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.job import Unsaved
from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.transitions.count_writes import counts_add, counts_of
from orchestrator.settings.run_settings import RunSettings

_STORED: Final = select(runs.c.settings).where(runs.c.id == bindparam("run"))
_CONFIGURE: Final = update(runs).where(runs.c.id == bindparam("run")).values(settings=bindparam("new_settings"))

_settings: Final = msgspec.json.Decoder(RunSettings)


async def run_configure(
    connection: AsyncConnection, run: int, settings: RunSettings, *, before: RunSettings
) -> RunSettings:
    """Stores what of them is another than `before`, of which they were made: others may have changed the run since.
    Returns what it has now.

    Where members of outputs are to become files that were not before, the results that are there count as unsaved yet.
    """
    stands = (await connection.execute(_STORED, {"run": run})).scalar()
    stored = before if stands is None else _settings.decode(stands)
    settings = settings.merged_into(stored, before=before)
    if {*settings.saved_members} - {*stored.saved_members}:
        found = Counter(await counts_of(connection, run))
        more = found[State.SUCCEEDED.value] - sum(found[why.value] for why in Unsaved)
        await counts_add(connection, Counter({(run, Unsaved.LATER.value): max(0, more)}))
    await connection.execute(_CONFIGURE, {"run": run, "new_settings": msgspec.json.encode(settings)})
    return settings
