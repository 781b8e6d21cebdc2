"""What is owed of single runs: that one is over, in the transaction of the step that ends its last job."""

from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from sqlalchemy import bindparam, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.pipelines.run_news import RunNews, run_end, run_message
from orchestrator.ledger.schema.flow_tables import RUN_NEWS_UNSETTLED, run_outbox
from orchestrator.ledger.schema.job_tables import counts, runs
from orchestrator.ledger.sqlite.statements import IN_BATCH, batch_of

KEPT_PER_RUN: Final = 100
"""So many messages of a run are kept that nobody waits for any more."""

_UNFINISHED: Final = tuple(state.value for state in State if state not in TERMINAL)


class _Wanted(msgspec.Struct, frozen=True):
    """What of a run's settings says who is told."""

    notify: str | None = None


_wanted: Final = msgspec.json.Decoder(_Wanted)
_OVER: Final = select(runs.c.id, runs.c.name, runs.c.settings).where(
    runs.c.id.in_(IN_BATCH),
    ~select(counts.c.run_id)
    .where(counts.c.run_id == runs.c.id, counts.c.name.in_(_UNFINISHED), counts.c.n > 0)
    .exists(),
)
_COUNTS: Final = select(counts.c.name, counts.c.n).where(counts.c.run_id == bindparam("run"))
_OLD: Final = (
    select(run_outbox.c.id)
    .where(run_outbox.c.run_id == bindparam("run"), ~RUN_NEWS_UNSETTLED)
    .order_by(run_outbox.c.id.desc())
    .offset(KEPT_PER_RUN)
)


async def ends_owe(connection: AsyncConnection, ended: Collection[int], *, now: int) -> None:
    """Owes the message that a run is over to each of `ended`, of which jobs have ended, that is and tells somebody."""
    for run, name, settings in (await connection.execute(_OVER, batch_of(ended))).all():
        if wanted_by(settings) is None:
            continue
        jobs = await counts_of(connection, run)
        if (news := run_end(jobs)) is not None:
            await news_owe(connection, run, news, run_message(news, run=name, jobs=jobs, at=now), now)


async def counts_of(connection: AsyncConnection, run: int) -> Mapping[str, int]:
    """How many jobs of a run are in each state."""
    return {row.name: row.n for row in await connection.execute(_COUNTS, {"run": run})}


async def news_owe(connection: AsyncConnection, run: int, news: RunNews, body: bytes, now: int) -> None:
    """Owes `body`, which is that `news`; old messages that nobody waits for are forgotten."""
    await connection.execute(delete(run_outbox).where(run_outbox.c.id.in_(_OLD)), {"run": run})
    row = {"run_id": run, "news": news.value, "body": body, "owed_at": now, "due_at": now}
    await connection.execute(insert(run_outbox).inline(), row)


def wanted_by(settings: bytes) -> str | None:
    """Where a run with these settings, as they are stored, has its news sent; None: nowhere."""
    return _wanted.decode(settings).notify
