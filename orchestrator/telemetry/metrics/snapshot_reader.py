"""All that there is to say at one moment, read from the ledger."""

from typing import Final

from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.heartbeats import STALE_US, at_work
from orchestrator.telemetry.metrics.batch_api_readings import read_batch_api
from orchestrator.telemetry.metrics.batch_readings import read_batches
from orchestrator.telemetry.metrics.endpoint_readings import read_endpoints
from orchestrator.telemetry.metrics.labels import ENDPOINTS_MAX, ClosedLabel
from orchestrator.telemetry.metrics.message_readings import read_messages
from orchestrator.telemetry.metrics.pipeline_readings import read_pipelines
from orchestrator.telemetry.metrics.pod_readings import read_pods
from orchestrator.telemetry.metrics.process_readings import read_files, read_process
from orchestrator.telemetry.metrics.prometheus_collector import MetricsText, exposed
from orchestrator.telemetry.metrics.readings import MetricsSnapshot, Readings
from orchestrator.telemetry.metrics.run_readings import read_runs, read_standings

FRESH_US: Final = STALE_US
"""What a sample says of the present is said no longer than what a process says of itself."""


async def read_snapshot(ledger: Ledger) -> MetricsSnapshot:
    """What `ledger` says now, whoever works on it or did. Raises `StorageError`."""
    now, into = ledger.now(), Readings()
    tallies = ledger.reports.tallies
    held_by, beats = await ledger.holder(), await ledger.runs.heartbeats.all()
    present = [] if held_by is None else at_work(beats, now, since=await ledger.taken_at() or 0)  # of these very rows
    endpoints = await tallies.endpoints()
    label = ClosedLabel((each.name for each in endpoints), ENDPOINTS_MAX)
    fresh_from = now - FRESH_US if present else now + FRESH_US
    await read_endpoints(ledger, endpoints, label, fresh_from=fresh_from, into=into)
    await read_standings(ledger, endpoints, label, present, into)
    await read_batches(ledger, endpoints, label, into)
    await read_batch_api(ledger, into)
    await read_runs(ledger, held_by, into=into)
    await read_pipelines(ledger, into)
    await read_messages(ledger, into)
    await read_pods(ledger, into)
    await read_process(ledger, beats, present, into)
    await read_files(ledger, into)
    return into.snapshot()


async def metrics_text(ledger: Ledger, accept: str = "") -> MetricsText:
    """The answer to who scrapes `/metrics` and accepts `accept`. Raises `StorageError`."""
    return exposed(await read_snapshot(ledger), accept)
