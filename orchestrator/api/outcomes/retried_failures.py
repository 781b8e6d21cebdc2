"""The kinds of executions of a run that failed and were tried again."""

from typing import Final

from orchestrator.core.diagnosis.failed_executions import RetriedKind, execution_s_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.reports.failed_executions import RetriedKindRow
from orchestrator.ledger.runs.runs import Run

KINDS_SHOWN: Final = 3
"""So many kinds of failures tell most of what went wrong."""


async def largest_retried(ledger: Ledger, run: Run, *, is_counted: bool = True) -> tuple[RetriedKind, ...]:
    """The largest of those of `run`; see `retried_kinds`."""
    return tuple(view for _, view in (await retried_kinds(ledger, run, is_counted=is_counted))[:KINDS_SHOWN])


async def retried_kinds(
    ledger: Ledger, run: Run, *, is_counted: bool = True
) -> list[tuple[RetriedKindRow, RetriedKind]]:
    """Those of `run`, the largest first: as the ledger has each, and as it is shown.

    To count whose jobs have not ended all failed executions since the run began are looked at, which no page can wait
    for: without `is_counted` that is left out.
    """
    rows = await ledger.reports.failed_executions.kinds(run.id)
    unfinished = await ledger.reports.failed_executions.open(run.id) if rows and is_counted else {}
    return [
        (row, _shown(row, run.settings.price, unfinished.get(row.error_key, 0) if is_counted else None)) for row in rows
    ]


def _shown(row: RetriedKindRow, price: float | None, unfinished: int | None) -> RetriedKind:
    execution_s = execution_s_of(row.total_ms, row.n, row.untold)
    return RetriedKind(
        count=row.n,
        class_=row.trouble,
        sample=row.sample,
        execution_s=round(execution_s, 3),
        cost=None if price is None else price * execution_s,
        unfinished=unfinished,
    )
