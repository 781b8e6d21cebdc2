"""Keeps what executions said that failed, and that another one follows.

Each is written by the transaction of the step that has it repeated, in one line and cut to `MESSAGE_CHARS_MAX`. They go
with the events of their job (`ledger.reports.retention`); their kinds stay as long as their run.
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.wording import shortened
from orchestrator.ledger.schema.failure_tables import failed_executions, retried_kinds
from orchestrator.ledger.sqlite.statements import Many, greatest, insert_new, lesser, upsert

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
        "first_at": lesser(retried_kinds.c.first_at, new.first_at),
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
