"""The metrics of a ledger that is opened for that: as text, as values, and in a file."""

from pathlib import Path

import msgspec
from anyio import to_thread

from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.ledger import read_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.telemetry.metrics.prometheus_collector import MetricsText, exposed
from orchestrator.telemetry.metrics.readings import Distribution
from orchestrator.telemetry.metrics.registry import BY_NAME
from orchestrator.telemetry.metrics.snapshot_reader import metrics_text, read_snapshot


class MetricValue(msgspec.Struct, frozen=True, kw_only=True):
    """One value of a metric."""

    name: str
    type: str
    unit: str
    labels: dict[str, str]
    value: float | Distribution


class WrittenMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """What was written to a file."""

    file: str
    series: int
    bytes: int


async def metrics_shown(ledger: LedgerAddress) -> MetricsText:
    """Every metric in the format that everybody reads. Raises `UsageError` where there is no ledger."""
    async with read_ledger(ledger) as opened:
        return await metrics_text(opened)


async def metrics_listed(ledger: LedgerAddress) -> list[MetricValue]:
    """Every value of every metric. Raises `UsageError` where there is no ledger."""
    async with read_ledger(ledger) as opened:
        snapshot = await read_snapshot(opened)
    return [
        MetricValue(
            name=BY_NAME[name].full_name,
            type=BY_NAME[name].type.value,
            unit=BY_NAME[name].unit,
            labels=dict(zip(BY_NAME[name].labels, labels, strict=True)),
            value=value,
        )
        for name, found in snapshot.values.items()
        for labels, value in found.items()
    ]


async def metrics_write(ledger: LedgerAddress, target: Path) -> WrittenMetrics:
    """Writes every metric to `target`, which is replaced whole. Raises `UsageError` where there is no ledger, or no
    such folder, and `StorageError` where it cannot be written.
    """
    async with read_ledger(ledger) as opened:
        snapshot = await read_snapshot(opened)
    body = exposed(snapshot).body
    await to_thread.run_sync(_replace, target, body)
    return WrittenMetrics(file=str(target), series=snapshot.series, bytes=len(body))


def _replace(target: Path, body: bytes) -> None:
    with Replacement(target) as replacement:
        replacement.write(body)
        replacement.commit()
