"""The service's own Batch (`/batch`, beta): what its answers say.

Of a batch that is done the service says no more than its counts: there is no status for it. Its answers are documented
by examples alone, so of each only what cannot be done without is asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from orchestrator.core.service.health import Count
from orchestrator.core.service.job_record import Record, is_remote_id, known_members, read_record, sane_ms
from orchestrator.units import EPOCH, MIB, MILLISECOND_US

REQUESTS_OF_BATCH_MAX: Final = 5_000
ACTIVE_BATCHES_MAX: Final = 10
QUEUED_REQUESTS_MAX: Final = 50_000
CALL_BYTES_MAX: Final = 10 * MIB
PAGE_REQUESTS: Final = 50
"""What the service documents of its limits (August 2026): of one batch, of an endpoint, of an endpoint, of the body of
one call; and what a page of requests holds where nobody says so."""

DRAFT: Final = "DRAFT"
FINALIZED: Final = "FINALIZED"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"
ENDED: Final = frozenset({FAILED, CANCELLED})

OF_ANOTHER_BATCH: Final = "the service answers with another batch"
NO_BATCH: Final = "the service answers with what is no batch"
NO_PAGE: Final = "the service answers with what is no page of requests"
ANOTHER_PAGE: Final = "the service answers with another page"
NO_LIST: Final = "the service answers with what is no list of batches"

_REQUEST_LISTS: Final = ("requests", "requestIds", "ids")
_BATCH_LISTS: Final = ("batches", "items", "data")
"""Where the lists stand whose place is not documented."""

_MICROSECOND: Final = timedelta(microseconds=1)

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements: Final = msgspec.json.Decoder(list[msgspec.Raw])


class ServiceBatch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A batch as the service has it; what it does not say is None."""

    id: str
    status: str
    """`DRAFT`, `FINALIZED`, `FAILED`, `CANCELLED`, or one that nobody has heard of."""

    total: Count = msgspec.field(default=None, name="requestTotal")
    in_progress: Count = msgspec.field(default=None, name="requestInProgress")
    completed: Count = msgspec.field(default=None, name="requestCompleted")
    failed: Count = msgspec.field(default=None, name="requestFailed")
    created_ms: Count = msgspec.field(default=None, name="createdAt")
    """When it was created (ms since the epoch)."""

    @property
    def is_draft(self) -> bool:
        """Whether nothing of it is executed yet, and requests may still be added."""
        return self.status == DRAFT

    @property
    def ended(self) -> int:
        """How many of its requests have ended, as far as it says."""
        return (self.completed or 0) + (self.failed or 0)

    @property
    def is_cancelled(self) -> bool:
        """Whether it is cancelled, and nothing of it is under way any more."""
        return self.status == CANCELLED

    @property
    def is_failed(self) -> bool:
        """Whether the service has given it up as a whole."""
        return self.status == FAILED

    @property
    def is_over(self) -> bool:
        """Whether nothing of it will be executed any more. One that is to have no requests at all has lost them."""
        return self.status in ENDED or (
            self.status == FINALIZED and bool(self.total) and self.ended >= (self.total or 0)
        )


class BatchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One request of a batch, and when it had ended (µs), where the service says so."""

    record: Record
    finished_at: int | None = None


class BatchPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some requests of a batch, in the service's order.

    One that cannot be read has its place all the same, as a record without id and status.
    """

    rows: tuple[BatchRow, ...]
    total: int | None
    has_more: bool


class BatchList(msgspec.Struct, frozen=True, kw_only=True):
    """Batches of an endpoint, newest first, and whether there are more."""

    batches: tuple[ServiceBatch, ...]
    has_more: bool


class BatchChanged(msgspec.Struct, frozen=True, kw_only=True):
    """It is done. `batch` is what the answer says of the batch, if anything; `request_ids` those of the requests that
    were sent, in their order, where the answer has an id for each.
    """

    batch: ServiceBatch | None = None
    request_ids: tuple[str, ...] | None = None


def append_body(requests: Iterable[bytes]) -> bytes:
    """The body of an append. Each request is the JSON of one: `{"input": ...}`."""
    return b'{"requests":[%b]}' % b",".join(requests)


def read_batch(body: bytes, batch_id: str | None = None) -> ServiceBatch:
    """The batch in `body`. Raises `ValueError`, also for another one than `batch_id`, if that is given."""
    batch = _batch_in(_object(body) or {})
    if batch is None:
        raise ValueError(NO_BATCH)
    if batch_id not in (None, batch.id):
        raise ValueError(OF_ANOTHER_BATCH)
    return batch


def read_batch_change(body: bytes, batch_id: str | None, requests: int) -> BatchChanged:
    """What the answer to a change says of the batch `batch_id` (None: of a new one) and of so many requests that were
    sent. Raises `ValueError` where that is nothing of use.
    """
    members = _object(body)
    elements = _list(msgspec.Raw(body)) if members is None else _first_list(members, _REQUEST_LISTS)
    request_ids = _request_ids(elements or (), requests)
    batch = _batch_in(members or {})
    if batch is None and (batch_id is None or request_ids is None):
        raise ValueError(NO_BATCH)
    if batch is not None and batch_id not in (None, batch.id):
        raise ValueError(OF_ANOTHER_BATCH)
    return BatchChanged(batch=batch, request_ids=request_ids)


def _request_ids(elements: Iterable[msgspec.Raw], requests: int) -> tuple[str, ...] | None:
    named = [_id_of(each) for each in elements]
    ids = tuple(each for each in named if each is not None)
    return ids if requests and len(named) == len(set(ids)) == requests else None


class _Named(msgspec.Struct, frozen=True):
    id: str | None = None


def _id_of(raw: msgspec.Raw) -> str | None:
    """The id that an element of a list is, or has."""
    members = _object(bytes(raw))
    known, _ = known_members(_Named, {"id": raw} if members is None else members)
    return known["id"] if is_remote_id(known.get("id")) else None


def read_batch_page(body: bytes, offset: int) -> BatchPage:
    """The page of requests in `body`. Raises `ValueError`, also for one that begins elsewhere than at `offset`."""
    members = _object(body) or {}
    elements = _list(members.get("requests"))
    if elements is None:
        raise ValueError(NO_PAGE)
    counts = _page_counts(members)
    if counts.offset not in (None, offset):
        raise ValueError(ANOTHER_PAGE)
    rows = tuple(_row(bytes(each)) for each in elements)
    return BatchPage(
        rows=rows, total=counts.total, has_more=_has_more(counts, offset + len(rows), is_empty=not elements)
    )


def read_batch_list(body: bytes, offset: int = 0) -> BatchList:
    """The batches in `body`. Raises `ValueError`, also where one cannot be read: it may be what is looked for."""
    members = _object(body)
    elements = _list(msgspec.Raw(body)) if members is None else _first_list(members, _BATCH_LISTS)
    batches = [_batch_in(_object(bytes(each)) or {}) for each in elements or ()]
    if elements is None or None in batches:
        raise ValueError(NO_LIST)
    has_more = members is not None and _has_more(_page_counts(members), offset + len(elements), is_empty=True)
    return BatchList(batches=tuple(each for each in batches if each is not None), has_more=has_more)


class _PageCounts(msgspec.Struct, frozen=True, kw_only=True):
    total: Count = None
    offset: Count = None
    has_more: bool | None = msgspec.field(default=None, name="hasMore")


def _page_counts(members: Mapping[str, msgspec.Raw]) -> _PageCounts:
    known, _ = known_members(_PageCounts, members)
    return _PageCounts(**known)


def _has_more(counts: _PageCounts, until: int, *, is_empty: bool) -> bool:
    """Whether there is something behind place `until`; where the service does not say, a page that is not empty has
    another behind it.
    """
    if counts.has_more is not None:
        return counts.has_more
    return until < counts.total if counts.total is not None else not is_empty


class _Times(msgspec.Struct, frozen=True, kw_only=True):
    started_at: datetime | None = msgspec.field(default=None, name="startedAt")
    completed_at: datetime | None = msgspec.field(default=None, name="completedAt")


def _row(raw: bytes) -> BatchRow:
    record = read_record(raw)
    if record is None:
        return BatchRow(record=Record(remote_id=None, status=""))
    known, _ = known_members(_Times, _object(raw) or {})
    start, end = _at(known.get("started_at")), _at(known.get("completed_at"))
    took_ms = None if start is None or end is None else sane_ms((end - start) // MILLISECOND_US)
    return BatchRow(record=msgspec.structs.replace(record, execution_ms=took_ms), finished_at=end)


def _at(moment: datetime | None) -> int | None:
    """µs since the epoch. A time without its zone is one of UTC."""
    if moment is None:
        return None
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // _MICROSECOND


def _batch_in(members: dict[str, msgspec.Raw]) -> ServiceBatch | None:
    known, _ = known_members(ServiceBatch, members)
    return ServiceBatch(**known) if is_remote_id(known.get("id")) and known.get("status") else None


def _object(body: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return _members.decode(body)
    except (ValueError, RecursionError):
        return None


def _list(raw: msgspec.Raw | None) -> Sequence[msgspec.Raw] | None:
    try:
        return None if raw is None else _elements.decode(raw)
    except (ValueError, RecursionError):
        return None


def _first_list(members: dict[str, msgspec.Raw], names: Iterable[str]) -> Sequence[msgspec.Raw] | None:
    lists = (_list(members.get(name)) for name in names)
    return next((each for each in lists if each is not None), None)
