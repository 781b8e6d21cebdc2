"""What is owed of single runs: that one is over, in the transaction of the step that ends its last job."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, delete, func, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.jobs.lifecycle import UNFINISHED
from orchestrator.core.pipelines.receivers import Receiver, receivers_for, receivers_of_run
from orchestrator.core.pipelines.run_messages import (
    KINDS_MAX,
    FailureSample,
    MessageFigures,
    RunNews,
    run_end,
    run_message,
)
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.core.pools.member import MemberSettings, dearest, price_at
from orchestrator.ledger.expressions import alone_or_beside, unindexed
from orchestrator.ledger.schema.flow_tables import RUN_NEWS_UNSETTLED, episodes, run_outbox
from orchestrator.ledger.schema.job_tables import clusters, counts, endpoints, executions, intakes, jobs, outcomes, runs
from orchestrator.ledger.schema.pod_tables import pod_leases
from orchestrator.ledger.statements import IN_BATCH, batch_of
from orchestrator.ledger.transitions.count_writes import counts_of
from orchestrator.units import HOUR_US

KEPT_PER_RUN: Final = 100
"""So many messages of a run are kept that nobody waits for any more."""


class _Wanted(msgspec.Struct, frozen=True):
    """What of a run's settings says who is told, and what it costs."""

    notify: str | None = None
    price_per_second: float | None = None
    batch_discount: int | None = None
    members: tuple[MemberSettings, ...] = ()
    budget: float = 0.0
    pod_template: PodTemplate | None = None


class NotifyingRun(msgspec.Struct, frozen=True):
    """A run that tells somebody."""

    id: int
    name: str
    settings: bytes


_wanted: Final = msgspec.json.Decoder(_Wanted)
_RUN: Final = select(runs.c.id, runs.c.name, runs.c.settings)
_RUN_LOCKED: Final = _RUN.where(runs.c.id == bindparam("run")).with_for_update(key_share=True)
_IS_OVER: Final = (
    ~select(counts.c.run_id).where(counts.c.run_id == runs.c.id, counts.c.name.in_(UNFINISHED), counts.c.n > 0).exists()
)
_TELLS: Final = runs.c.settings.bool_op("LIKE")(literal(b'%"notify":"%', runs.c.settings.type))
_MAY_BE_OVER: Final = (
    _RUN.where(runs.c.id.in_(IN_BATCH), alone_or_beside(_IS_OVER, _TELLS))
    .order_by(runs.c.id)
    .with_for_update(of=runs, key_share=True)
)
"""Whoever takes more rows in for one of them, or ends other jobs of it, waits, or was waited for: what is counted then
is counted afterwards. So of two who end the last two jobs beside each other the second one finds that it is over.
"""

_TAKEN: Final = ("timed", "total_ms", "batch_ms", "untimed")
_TOOK: Final = (
    select(
        endpoints.c.endpoint,
        *(func.sum(executions.c[name]) for name in _TAKEN),
    )
    .join(endpoints, endpoints.c.id == executions.c.endpoint_id)
    .where(executions.c.run_id == bindparam("run"))
    .group_by(endpoints.c.endpoint)
)
_PAID_FOR_PODS: Final = select(
    func.sum(
        pod_leases.c.per_hour
        * (func.coalesce(pod_leases.c.ended_at, bindparam("now")) - pod_leases.c.began_at)
        / float(HOUR_US)
    )
).where(pod_leases.c.run == bindparam("run"), pod_leases.c.began_at.is_not(None))
_first: Final = select(func.min(intakes.c.first_job)).where(intakes.c.run_id == bindparam("run")).scalar_subquery()
_KINDS: Final = (
    select(
        clusters.c.n,
        select(outcomes.c.message)
        .join(jobs, jobs.c.id == outcomes.c.job_id)
        .where(
            outcomes.c.error_key == clusters.c.error_key,
            outcomes.c.job_id >= _first,
            unindexed(jobs.c.run_id) == bindparam("run"),
        )
        .order_by(outcomes.c.job_id)
        .limit(1)
        .scalar_subquery(),
    )
    .where(clusters.c.run_id == bindparam("run"), clusters.c.n > 0)
    .order_by(clusters.c.n.desc(), clusters.c.last_at.desc(), clusters.c.error_key)
    .limit(KINDS_MAX)
)
_OLD: Final = (
    select(run_outbox.c.id)
    .where(run_outbox.c.run_id == bindparam("run"), ~RUN_NEWS_UNSETTLED)
    .order_by(run_outbox.c.id.desc())
    .offset(KEPT_PER_RUN)
)
_EPISODE: Final = select(episodes.c.over_at).where(
    episodes.c.run_id == bindparam("run"), episodes.c.news == bindparam("news")
)
EPISODE_STANDS: Final = (
    update(episodes)
    .where(episodes.c.run_id == bindparam("of"), episodes.c.news == bindparam("it"))
    .values(over_at=bindparam("at"))
)
"""An episode is over since then, or with None is not."""

_EPISODES_END: Final = delete(episodes).where(episodes.c.run_id == bindparam("run"))


async def ends_owe(connection: AsyncConnection, ended: Collection[int], *, now: int) -> bool:
    """Owes the message that a run is over to each of `ended`, of which jobs have ended, that is and tells somebody.
    Whatever held of it before is over, and told with that. Returns whether any is owed.
    """
    is_owed = False
    for run, name, settings in (await connection.execute(_MAY_BE_OVER, batch_of(ended))).all():
        if not receivers_in(settings):
            continue
        news = run_end(await counts_of(connection, run))
        if news is not None:
            await connection.execute(_EPISODES_END, {"run": run})
            is_owed = await news_owe(connection, NotifyingRun(run, name, settings), news, now=now) or is_owed
    return is_owed


async def start_owe(connection: AsyncConnection, run: int, *, now: int) -> None:
    """Owes the message that a run has started to one that tells somebody, and has something to do: once until it is
    over.
    """
    if (told := await notifying_run(connection, run)) is None or run_end(await counts_of(connection, run)) is not None:
        return
    await episode_begin(connection, told, RunNews.STARTED, now=now)


async def episode_begin(
    connection: AsyncConnection, run: NotifyingRun, news: RunNews, *, now: int, why: str = ""
) -> bool:
    """Something holds of a run: that is owed once, until it has been over for a while; returns whether it was."""
    row = (await connection.execute(_EPISODE, {"run": run.id, "news": news.value})).first()
    if row is not None:
        if row.over_at is not None:
            await connection.execute(EPISODE_STANDS, {"of": run.id, "it": news.value, "at": None})
        return False
    await connection.execute(insert(episodes), {"run_id": run.id, "news": news.value, "began_at": now})
    return await news_owe(connection, run, news, now=now, why=why)


async def notifying_run(connection: AsyncConnection, run: int) -> NotifyingRun | None:
    """The run of that number, where it tells somebody."""
    row = (await connection.execute(_RUN_LOCKED, {"run": run})).first()
    return None if row is None or not receivers_in(row.settings) else NotifyingRun(*row)


async def news_owe(connection: AsyncConnection, run: NotifyingRun, news: RunNews, *, now: int, why: str = "") -> bool:
    """Owes the message that `news` is of a run to each who wants to hear of it, and returns whether anybody does; old
    ones that nobody waits for are forgotten.
    """
    targets = receivers_for(receivers_in(run.settings), news)
    if not targets:
        return False
    await connection.execute(delete(run_outbox).where(run_outbox.c.id.in_(_OLD)), {"run": run.id})
    standing = await counts_of(connection, run.id)
    figures = await message_figures(connection, run.id, run.settings, now)
    body = run_message(news, run=run.name, jobs=standing, at=now, why=why, figures=figures)
    common = {"run_id": run.id, "news": news.value, "body": body, "owed_at": now, "due_at": now}
    await connection.execute(insert(run_outbox).inline(), [{**common, "target": target} for target in targets])
    return True


async def message_figures(connection: AsyncConnection, run: int, settings: bytes, now: int) -> MessageFigures:
    """What there is to say of a run with these settings beside its counts."""
    wanted = _wanted.decode(settings)
    spent, price = None, dearest(wanted.members, wanted.price_per_second)
    if price:
        spent = 0.0
        for endpoint, *took in (await connection.execute(_TOOK, {"run": run})).all():
            totals = DurationTotals(**dict(zip(_TAKEN, took, strict=True)))
            there = price_at(wanted.members, endpoint, wanted.price_per_second)
            spent += totals.cost(price if there is None else there, wanted.batch_discount)
    if wanted.pod_template is not None:
        paid = (await connection.execute(_PAID_FOR_PODS, {"run": run, "now": now})).scalar()
        spent = (spent or 0.0) + float(paid or 0.0)
    kinds = await connection.execute(_KINDS, {"run": run})
    return MessageFigures(
        spent=spent, budget=wanted.budget or None, kinds=tuple(FailureSample(n, error or "") for n, error in kinds)
    )


def receivers_in(settings: bytes) -> Sequence[Receiver]:
    """Whom a run with these settings, as they are stored, tells."""
    return receivers_of_run(notify_in(settings))


def notify_in(settings: bytes) -> str | None:
    """What settings as they are stored say of who is told; None: nothing."""
    return _wanted.decode(settings).notify
