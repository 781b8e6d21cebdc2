"""The kinds of failures of each run (the same error text), counted by the transactions that change them."""

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Final

import msgspec
from sqlalchemy import bindparam, literal_column, update
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import error_key
from orchestrator.ledger.expressions import greatest, least
from orchestrator.ledger.schema.job_tables import clusters, outcomes
from orchestrator.ledger.statements import Guarded, Many, placeholder, upsert

OfRun = tuple[int, int]
"""A run, and a kind of failures."""


class Restated(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has failed as `invalid_output`, and does so for another reason by now."""

    job: int
    run: int
    was: str
    now: str


_ADD: Final = upsert(
    clusters,
    lambda new: {
        "n": clusters.c.n + new.n,
        "first_at": least(clusters.c.first_at, new.first_at),
        "last_at": greatest(clusters.c.last_at, new.last_at),
    },
)
_REDUCE: Final = Many(
    update(clusters)
    .where(clusters.c.run_id == bindparam("b_run"), clusters.c.error_key == bindparam("b_key"))
    .values(n=clusters.c.n - bindparam("b_n"))
)
_RESTATE: Final = Guarded(
    update(outcomes)
    .values(message=placeholder(2), error_key=placeholder(3))
    .where(
        outcomes.c.job_id == placeholder(0),
        outcomes.c.message == placeholder(1),
        literal_column(f"trouble = '{FailureClass.INVALID_OUTPUT}'"),
    )
)


async def kinds_add(connection: AsyncConnection, found: Mapping[OfRun, Sequence[int]]) -> None:
    """Counts failures, by their times."""
    rows = [
        {"run_id": run, "error_key": key, "n": len(at), "first_at": min(at), "last_at": max(at)}
        for (run, key), at in found.items()
    ]
    await connection.execute(_ADD, rows)


async def kinds_reduce(connection: AsyncConnection, fewer: Mapping[OfRun, int]) -> None:
    """Of these there are so many fewer."""
    await _REDUCE.execute(connection, [{"b_run": run, "b_key": key, "b_n": n} for (run, key), n in fewer.items()])


async def failures_restate(connection: AsyncConnection, restated: Sequence[Restated], *, at: int) -> None:
    """Has failures tell their other reason, where they still tell the one that they had."""
    keys = [[error_key(FailureClass.INVALID_OUTPUT, text) for text in (each.was, each.now)] for each in restated]
    rows = [(each.job, each.was, each.now, new) for each, (_, new) in zip(restated, keys, strict=True)]
    done = await _RESTATE.execute(connection, rows)
    for each, (old, new) in compress(zip(restated, keys, strict=True), done):
        await kinds_reduce(connection, {(each.run, old): 1})
        await kinds_add(connection, {(each.run, new): [at]})
