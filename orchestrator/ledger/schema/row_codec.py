"""Rows to values and values to rows."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec
from sqlalchemy import Alias, ColumnElement, Label, Table, func, select

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.reasons import Detail
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import DamagedError
from orchestrator.ledger.database import NUMBER_MAX
from orchestrator.ledger.schema.job_tables import intakes, jobs
from orchestrator.ledger.statements import batch_of

PACK_BYTES_MIN: Final = 4096
"""Shorter blobs are stored as they are: zlib would cost more than it saves."""

PACK_LEVEL: Final = 1

STATE_OF: Final = {state.value: state for state in State}

Value = TypeVar("Value", bound=msgspec.Struct)


def values(kind: type[Value], rows: Iterable[Sequence[Any]]) -> list[Value]:
    """Each row as a `kind`, which is `array_like` and has its fields in the order of the columns."""
    return msgspec.convert(list(map(tuple, rows)), list[kind], strict=False)  # type: ignore[valid-type]  # 0 is false


def columns(kind: type[msgspec.Struct], table: Table | Alias, **others: ColumnElement[Any]) -> list[Label[Any]]:
    """What is selected for rows that become a `kind`: for each of its fields, unless it is one of the `others`, the
    column of `table` that is called so, or so and `_id`. The rows have them under the names of the fields.
    """
    own = {name.removesuffix("_id"): column for name, column in table.c.items()} | dict(table.c.items())
    return [(others[name] if name in others else own[name]).label(name) for name in kind.__struct_fields__]


def pack(blob: bytes | None) -> tuple[bytes | None, int]:
    """`blob` as it is stored, and whether it was compressed (1) or not (0)."""
    if blob is None or len(blob) < PACK_BYTES_MIN:
        return blob, 0
    packed = zlib.compress(blob, PACK_LEVEL)
    return (packed, 1) if len(packed) < len(blob) else (blob, 0)


def unpack(blob: bytes, packed: int) -> bytes:
    """The reverse of `pack`. Raises `DamagedError` for what is not what was packed."""
    if not packed:
        return blob
    try:
        return zlib.decompress(blob)
    except zlib.error as error:
        raise DamagedError from error


_detail: Final = msgspec.json.Decoder(Detail)
NO_DETAIL: Final = Detail()


def detail_of(stored: str | None) -> Detail:
    """What belongs to the reason of an event."""
    return NO_DETAIL if stored is None else _detail.decode(stored)


_members: Final = msgspec.json.Decoder(tuple[str, ...])


def saved_names_text(saved: Sequence[str]) -> str | None:
    """The members of an output that became files, as they are stored."""
    return msgspec.json.encode(saved).decode() if saved else None


def saved_names(stored: str | None) -> tuple[str, ...]:
    """The reverse of `saved_names_text`."""
    return () if stored is None else _members.decode(stored)


def checksum(job: int, stored: bytes | None) -> int:
    """CRC-32 of an output as it is stored, begun with the number of its job, so that it fits no other job."""
    return zlib.crc32(stored or b"", job & 0xFFFF_FFFF)


def is_taken_in(run: Any) -> ColumnElement[bool]:
    """Whether a queued job of `run` counts: one of an intake that was not accepted does not, yet or ever.

    It is told by its number, which every index has: while a million rows are taken in, those who look for the next job
    of their run must not meet them one by one.
    """
    unfinished = select(func.min(intakes.c.first_job)).where(intakes.c.run_id == run, intakes.c.accepted_at.is_(None))
    return jobs.c.id < func.coalesce(unfinished.scalar_subquery(), NUMBER_MAX)


def notice_row(notice: Notice) -> dict[str, Any]:
    """The row of `notices` that keeps `notice`; `of` is the submission whose endpoint it is about."""
    record = notice.record
    output, packed = pack(record.output if record else None)
    return {
        "submission_id": notice.submission,
        "of": notice.submission,
        "received_at": notice.received_at,
        "remote_id": record.remote_id if record else None,
        "status": notice.key[1],
        "output": output,
        "packed": packed,
        "error": record.error if record else None,
        "delay_ms": record.delay_ms if record else None,
        "execution_ms": record.execution_ms if record else None,
    }


def notice_of(row: Any) -> Notice:
    """The notice in a row of `notices`."""
    record = None
    if row.status:
        record = Record(
            remote_id=row.remote_id,
            status=row.status,
            output=None if row.output is None else unpack(row.output, row.packed),
            error=row.error,
            delay_ms=row.delay_ms,
            execution_ms=row.execution_ms,
        )
    return Notice(submission=row.submission_id, received_at=row.received_at, record=record)


def remote_ids_of(notices: Sequence[Notice]) -> dict[str, Any]:
    """The submissions that these notices are of and what the service calls them, as a batch."""
    return batch_of((notice.submission, notice.record.remote_id if notice.record else None) for notice in notices)


def fitting(sizes: Iterable[int], bytes_max: int) -> int:
    """How many rows, of these sizes in their order, come to at most `bytes_max`; the first one always fits.

    So it is known what a page holds in memory before any of it is read.
    """
    taken = held = 0
    for size in sizes:
        held += size
        if taken and held > bytes_max:
            break
        taken += 1
    return taken
