"""A row: what every input format is read into, and how rows travel on: in batches of bounded size."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from orchestrator.units import MIB

BATCH_ROWS_MAX: Final = 1_000
FIRST_BATCH_ROWS: Final = 64
BATCH_BYTES_MAX: Final = 4 * MIB

ID_FIELD: Final = "custom_id"
"""What the id of a row is called where nothing else is said."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One job as an input file describes it, checked.

    `line` counts from 1. `custom_id` is the author's, or (`derived`) the first 16 hex digits of `digest`, which repeats
    when an input does; whoever knows the other rows tells repeats apart. `input` is the JSON object exactly as it came,
    without white space around it; `digest` the SHA-256 of its canonical form, so that inputs that differ only in white
    space or key order have the same one. `policy` (compact JSON, the service's names) is what the row itself asks for;
    the run's policy is merged under it when the job is sent. `s3_config` (compact JSON) holds references to environment
    variables in place of secrets. Of the rows that were never sent those of a higher `priority` go first. `metadata` (a
    compact JSON object) is not sent, and stands in the results.
    """

    line: int
    custom_id: str
    derived: bool
    input: bytes
    digest: bytes
    policy: bytes | None
    s3_config: bytes | None
    priority: int = 0
    metadata: bytes | None = None


class InputRecord(NamedTuple):
    """A row as mapped lines and tables have it, before an input is made of it; `line` counts from 1."""

    line: int
    values: dict[str, Any]


class RowProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a line is not a job, in words for the author of the file. `line` counts from 1."""

    line: int
    text: str
    is_oversize: bool = False
    """Whether it would be one if it were shorter."""


class OversizeError(ValueError):
    """A request would be larger than the service takes."""


def problem_of(line: int, error: Exception) -> RowProblem:
    """Why the line is not a job, by the error that its reading ended with."""
    return RowProblem(line=line, text=str(error), is_oversize=isinstance(error, OversizeError))


def batches(
    items: Iterable[Row | RowProblem], *, rows_max: int = BATCH_ROWS_MAX, bytes_max: int = BATCH_BYTES_MAX
) -> Iterator[tuple[Row | RowProblem, ...]]:
    """`items` in order, in tuples of at most `rows_max` items and `bytes_max` bytes; a larger item stands alone.

    The first is small, and each may be twice as long as the one before: of items that come slowly at least half are on
    their way.
    """
    now_max = min(FIRST_BATCH_ROWS, rows_max)
    batch: list[Row | RowProblem] = []
    batch_bytes = 0
    for item in items:
        item_bytes = _size(item)
        if batch and (len(batch) == now_max or batch_bytes + item_bytes > bytes_max):
            yield tuple(batch)
            batch, batch_bytes, now_max = [], 0, min(now_max * 2, rows_max)
        batch.append(item)
        batch_bytes += item_bytes
    if batch:
        yield tuple(batch)


def _size(item: Row | RowProblem) -> int:
    if isinstance(item, RowProblem):
        return len(item.text)
    parts = (item.policy, item.s3_config, item.metadata)
    return len(item.input) + len(item.custom_id) + sum(len(part) for part in parts if part is not None)
