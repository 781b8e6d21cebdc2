"""The events that transitions leave, each with its reason."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs.reasons import Detail, ReasonCode
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.ledger.schema.job_tables import events
from orchestrator.ledger.schema.row_codec import detail_of
from orchestrator.ledger.statements import Many

_EVENT = Many(
    insert(events).inline(),
    "job_id",
    "at",
    "event",
    "submission_id",
    "attempt",
    "trouble",
    "reason",
    "reason_code",
    "detail",
)


async def events_write(connection: AsyncConnection, done: Sequence[Transition], errors: Mapping[int, str]) -> None:
    """With the error that each job had ended with which is tried again."""
    rows = [_event_row(step) for step in done]
    for row in rows if errors else ():
        if (error := errors.get(row["job_id"])) is not None:
            row["detail"] = _encoded(msgspec.structs.replace(detail_of(row["detail"]), error=error))
    await _EVENT.execute(connection, rows)


def _event_row(step: Transition) -> dict[str, Any]:
    reason, after = step.reason, step.after
    text, code = ("", reason.value) if isinstance(reason, ReasonCode) else (reason, None)
    return {
        "job_id": after.id,
        "at": step.at,
        "event": step.event.value,
        "submission_id": after.submission,
        "attempt": after.attempt,
        "trouble": step.trouble.value if step.trouble else None,
        "reason": text,
        "reason_code": code,
        "detail": None if step.detail is None else _encoded(step.detail),
    }


def _encoded(detail: Detail) -> str:
    return msgspec.json.encode(detail).decode()
