"""By which terms batches are made: the limits of the service, for how long results are taken to be kept, what waits."""

from typing import Final, Self

import msgspec

from orchestrator.core.service.batches import (
    ACTIVE_BATCHES_MAX,
    CALL_BYTES_MAX,
    QUEUED_REQUESTS_MAX,
    REQUESTS_OF_BATCH_MAX,
)
from orchestrator.units import HOUR_US, MINUTE_US

LEAST_ROWS: Final = 1


class BatchTerms(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As published of the beta of August 2026, and where nothing is, careful. Times are microseconds."""

    rows_max: int = REQUESTS_OF_BATCH_MAX
    """Requests in a batch."""

    call_bytes: int = CALL_BYTES_MAX
    """The longest body of a call."""

    active_max: int = ACTIVE_BATCHES_MAX
    """Batches of an endpoint that have not ended."""

    queued_max: int = QUEUED_REQUESTS_MAX
    """Requests that wait in them."""

    retention_us: int = HOUR_US
    """For how long a result is taken to be there once its request has ended. Nothing is published."""

    wait_us: int = 10 * MINUTE_US
    """So long after it was begun a batch is finalized though it is not full."""

    repeats_max: int = 50
    """So few repeats, where nothing else is left to be sent, are sent by `/run`: hours are saved for a little money."""

    def with_retention(self, retention_us: int) -> Self:
        """The same, where results are kept for so long."""
        return msgspec.structs.replace(self, retention_us=retention_us)


APPEND_ROWS: Final = 1_000
"""The most rows of one call: where its answer is lost, so many are sent anew at least."""


def rows_room(terms: BatchTerms, *, active: int, queued: int) -> int:
    """How many rows more may be put into batches of the endpoint, where so many are active and so many requests wait
    in them; 0 where no other batch may be begun.
    """
    return 0 if active >= terms.active_max else max(0, terms.queued_max - queued)


def fewer_rows(rows: int) -> int:
    """How many rows the next call has where one of so many was refused for one of them, or for all."""
    return max(LEAST_ROWS, rows // 2)


def more_rows(rows: int) -> int:
    """How many rows the next call has after one of so many was taken."""
    return min(APPEND_ROWS, rows * 2)
