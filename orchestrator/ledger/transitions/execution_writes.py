"""The executions of each run at each endpoint, added up by days, by which costs are told; and what failed ones said.

Each transaction adds those that its steps have ended, so that what was spent needs no look at the jobs. What an
execution said that failed, and that another one follows, is kept in one line and cut to `MESSAGE_CHARS_MAX`. That goes
with the events of its job (`ledger.reports.event_pruning`); the kinds of these stay as long as their run.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.gates.ended_executions import EndedExecution, ended_by
from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import shortened
from orchestrator.ledger.expressions import greatest, least
from orchestrator.ledger.schema.job_tables import executions, failed_executions, retried_kinds
from orchestrator.ledger.statements import Many, insert_new, upsert
from orchestrator.units import DAY_US

MESSAGE_CHARS_MAX: Final = 500

_KEEP: Final = Many(
    insert_new(failed_executions), "job_id", "attempt", "at", "trouble", "error_key", "message", "execution_ms"
)
_COUNT: Final = upsert(
    retried_kinds,
    lambda new: {
        "n": retried_kinds.c.n + new.n,
        "total_ms": retried_kinds.c.total_ms + new.total_ms,
        "untold": retried_kinds.c.untold + new.untold,
        "first_at": least(retried_kinds.c.first_at, new.first_at),
        "last_at": greatest(retried_kinds.c.last_at, new.last_at),
    },
)


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """An execution of a job that has failed, and is repeated by the step at hand."""

    run: int
    job: int
    attempt: int
    at: int
    trouble: str
    error_key: int
    message: str
    """As it was told; it is cut here."""

    execution_ms: int | None


async def failed_keep(connection: AsyncConnection, failed: Sequence[Failed]) -> None:
    """Writes these down, and counts their kinds."""
    texts = [shortened(summary_of(each.message), MESSAGE_CHARS_MAX) for each in failed]
    rows = [
        {
            "job_id": each.job, "attempt": each.attempt, "at": each.at, "trouble": each.trouble,
            "error_key": each.error_key, "message": text, "execution_ms": each.execution_ms,
        }
        for each, text in zip(failed, texts, strict=True)
    ]  # fmt: skip
    await _KEEP.execute(connection, rows)
    kinds: dict[tuple[int, int], dict[str, object]] = {}
    for each, text in zip(failed, texts, strict=True):
        ms, untold = each.execution_ms or 0, int(each.execution_ms is None)
        before = kinds.get((each.run, each.error_key))
        if before is None:
            kinds[each.run, each.error_key] = {
                "run_id": each.run, "error_key": each.error_key, "trouble": each.trouble, "sample": text, "n": 1,
                "total_ms": ms, "untold": untold, "first_at": each.at, "last_at": each.at,
            }  # fmt: skip
        else:
            _add(before, n=1, total_ms=ms, untold=untold)
            before["last_at"] = each.at
    await connection.execute(_COUNT, list(kinds.values()))


def _add(row: dict[str, object], **more: int) -> None:
    for name, value in more.items():
        before = row[name]
        assert isinstance(before, int)
        row[name] = before + value


Place = tuple[int, int, int]
"""A run, an endpoint, and a day: the number of days since 1970, UTC."""

_REPEATING: Final = frozenset({Event.RETRIED, Event.CONTINUED})
"""The events after which another execution follows."""

_ADDED: Final = ("timed", "total_ms", "batch_ms", "squares", "untimed", "failed")
_ADD: Final = upsert(executions, lambda new: {name: executions.c[name] + new[name] for name in _ADDED})


def place_of(step: Transition) -> Place:
    """Where the execution counts that `step` ends."""
    return step.after.run, step.before.endpoint, step.at // DAY_US


async def executions_add(connection: AsyncConnection, done: Sequence[Transition]) -> None:
    """Adds the executions that these steps have ended, and keeps what those said that another one is to follow."""
    found: dict[Place, list[DurationTotals]] = {}
    failed: list[Failed] = []
    for step in done:
        ended: EndedExecution | None = ended_by(step)
        if ended is not None:
            found.setdefault(place_of(step), []).append(ended.took)
            if ended.execution is not None and ended.execution.is_failed and step.event in _REPEATING:
                failed.append(_failed(step, ended.execution.kind or 0))
    if failed:
        await failed_keep(connection, failed)
    rows = [_row(place, DurationTotals.together(parts)) for place, parts in found.items()]
    if rows:
        await connection.execute(_ADD, rows)


def _failed(step: Transition, kind: int) -> Failed:
    said = step.previous_outcome
    execution_ms = step.execution_ms if said is None or said.execution_ms is None else said.execution_ms
    return Failed(
        run=step.after.run,
        job=step.after.id,
        attempt=step.before.attempt,
        at=step.at,
        trouble=step.trouble or FailureClass.FAILED,
        error_key=kind,
        message="" if said is None else said.message or "",
        execution_ms=execution_ms,
    )


def _row(place: Place, took: DurationTotals) -> dict[str, float]:
    run, endpoint, day = place
    return {
        "run_id": run,
        "endpoint_id": endpoint,
        "day": day,
        **{name: getattr(took, name) for name in _ADDED},
    }
