"""Traces for as long as a dashboard lives, from a ledger of its own that is opened anew where it became unreadable."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Connect, read_ledger
from orchestrator.telemetry.traces.otlp import otlp_exporter, sending_by
from orchestrator.telemetry.traces.trace_place import TracePlace, trace_place
from orchestrator.telemetry.traces.trace_sender import Send, TraceSender

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter  # an extra

log = logging.getLogger(__name__)

OPEN_AGAIN_S: Final = 10.0


async def send_traces(
    ledger: Path,
    share: float,
    *,
    clock: Clock,
    connect: Connect | None = None,
    exporter: "SpanExporter | None" = None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Sends the spans of that share of jobs until it is cancelled, to where the variables say, or by `exporter`.

    Raises `UsageError` at once where OpenTelemetry is not installed, or another process sends already.
    """
    send = sending_by(exporter or otlp_exporter())
    with trace_place(ledger) as place:
        task_status.started()
        while True:
            await _send(ledger, share, clock, connect, place, send)
            await anyio.sleep(OPEN_AGAIN_S)


async def _send(
    ledger: Path, share: float, clock: Clock, connect: Connect | None, place: TracePlace, send: Send
) -> None:
    """Returns once the ledger cannot be read for now: who looks on ends by that no more than others do."""
    try:
        async with read_ledger(ledger, clock=clock, connect=connect) as opened:
            await TraceSender(ledger=opened, place=place, share=share, send=send).serve()
    except (StorageError, UsageError) as error:
        log.warning("traces wait: %s", error)
