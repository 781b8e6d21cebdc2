"""Times as the service writes them."""

from datetime import UTC, datetime

from orchestrator.units import SECOND_US


def iso_time(at: int) -> str:
    """`at` (µs) in milliseconds: `2026-01-01T00:00:00.000Z`."""
    return datetime.fromtimestamp(at / SECOND_US, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
