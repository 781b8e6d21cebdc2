"""The answers of the service as tables for people, and as the JSON that they were."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from orchestrator.cli.output import streams, tables
from orchestrator.core.text.figures import lasting, minute
from orchestrator.core.text.json_compact import compact
from orchestrator.units import MILLISECOND_US

if TYPE_CHECKING:
    from orchestrator.client import Chunk, Health, JobRecord, JsonAnswer, Purged  # slow to import
    from orchestrator.core.service.batches import ServiceBatch

_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])

Rows = Iterable[tuple[str, str]]


def put_answer(raw: bytes) -> None:
    """The answer as one line of JSON, its tokens untouched."""
    streams.put_now(compact(raw) + b"\n")


def put_job(record: "JobRecord") -> None:
    """A job as a table."""
    tables.put_parts(tables.lines(_job_rows(record)))


def _job_rows(record: "JobRecord") -> Rows:
    yield "job", record.id or "(no id)"
    yield "status", record.status
    if record.delay_ms is not None:
        yield "waited", lasting(record.delay_ms / 1000)
    if record.execution_ms is not None:
        yield "ran", lasting(record.execution_ms / 1000)
    if record.worker_id is not None:
        yield "worker", record.worker_id
    if record.retries is not None:
        yield "retries", str(record.retries)
    if record.reason is not None:
        yield "error", record.reason
    raw = _fields.decode(record.raw)
    if "output" in raw:
        yield "output", compact(bytes(raw["output"])).decode()
    for name in record.more:
        if name not in ("error", "input", "webhook"):  # shown above, known to whoever asks, and a secret perhaps
            yield name, compact(bytes(raw[name])).decode()


def put_purged(purged: "Purged") -> None:
    """What a purge came to."""
    rows = [("removed", "(not told)" if purged.removed is None else f"{purged.removed:,}")]
    tables.put_parts(tables.lines(rows if purged.status is None else [*rows, ("status", purged.status)]))


def put_health(health: "Health") -> None:
    """The counts of an endpoint, one row for each state that the service names."""
    jobs, workers = (tables.columns((noun,), ()) for noun in ("jobs", "workers"))
    for table, counts in ((jobs, health.jobs), (workers, health.workers)):
        table.add_column(justify="right")
        for name, number in _counts(counts):
            table.add_row(tables.plain(name), tables.plain(number))
    tables.put_parts(jobs, "", workers)


def _counts(counts: msgspec.Struct) -> Rows:
    for field in msgspec.structs.fields(counts):
        value = getattr(counts, field.name)
        if field.name == "more":
            yield from ((str(name), str(more)) for name, more in value.items())
        elif value is not None:
            yield field.name.replace("_", " "), f"{value:,}"


def put_batches(batches: Sequence["ServiceBatch"], *, as_json: bool) -> None:
    """Batches as a table, or as one array."""
    headings = ("batch", "status", "requests", "in progress", "completed", "failed", "created")
    tables.put_list(batches, as_json=as_json, none="no batches", headings=headings, row=_batch_cells)


def _batch_cells(batch: "ServiceBatch") -> tuple[object, ...]:
    counts = (batch.total, batch.in_progress, batch.completed, batch.failed)
    created = "" if batch.created_ms is None else minute(batch.created_ms * MILLISECOND_US)
    return (batch.id, batch.status, *("" if count is None else count for count in counts), created)


def put_json_answer(answer: "JsonAnswer", *, as_json: bool) -> None:
    """An answer of a shape that is not ours: indented for people; events as one array."""
    if isinstance(answer.value, tuple):
        streams.put_now(b"[" + b",".join(msgspec.json.encode(event) for event in answer.value) + b"]\n")
    elif as_json:
        put_answer(answer.raw)
    else:
        streams.put_now(msgspec.json.format(answer.raw, indent=2) + b"\n")


def put_event(document: object) -> None:
    """One event of a stream, at once, on a line of its own."""
    streams.put_now(msgspec.json.encode(document) + b"\n")


def put_chunk(chunk: "Chunk", *, as_json: bool) -> None:
    """One chunk, at once: what was yielded, text as it is and all else as JSON; or the whole item as JSON."""
    if as_json:
        put_answer(chunk.raw)
    elif isinstance(chunk.output, str):
        streams.put_text(f"{tables.harmless(chunk.output)}\n")
    else:
        put_answer(bytes(_fields.decode(chunk.raw)["output"]) if _is_item(chunk) else chunk.raw)


def _is_item(chunk: "Chunk") -> bool:
    return chunk.raw.lstrip().startswith(b"{") and "output" in _fields.decode(chunk.raw)
