"""How the Batch API stands, as people, programs and metrics are told."""

from collections.abc import Mapping

import msgspec


class BatchApiTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Its files, batches and requests."""

    files_bytes: int
    files_bytes_max: int
    """What they may have together."""

    under_way: Mapping[str, int]
    """How many batches are in each state that goes on."""

    ended: Mapping[str, int]
    """How many have ended in each other state, with those that are forgotten."""

    requests_completed: int
    requests_failed: int
    """Those of batches that have ended."""
