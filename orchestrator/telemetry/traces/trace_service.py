"""Traces for as long as a dashboard lives, from a ledger of its own that is opened anew where it became unreadable, or
another one stands in its place.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.clock import Clock
from orchestrator.errors import OrchestratorError, flag_name, leading, message_of, with_settings_named
from orchestrator.ledger import Connect, read_ledger
from orchestrator.settings.addresses.companions import file_identity
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.telemetry.traces.otlp import otlp_exporter, sending_by
from orchestrator.telemetry.traces.trace_position import BEGINNING, TracePosition, trace_position
from orchestrator.telemetry.traces.trace_sender import Send, TraceSender

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter  # an extra

log = logging.getLogger(__name__)

OPEN_AGAIN_S: Final = 1.0
"""How often it is looked whether a ledger is there, and whether it still is the one that is open."""


async def send_traces(
    ledger: LedgerAddress,
    share: float,
    *,
    clock: Clock,
    connect: Connect | None = None,
    exporter: "SpanExporter | None" = None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Sends the spans of that share of jobs until it is cancelled, to where the variables say, or by `exporter`.

    Of a ledger that comes later all is sent. Raises `UsageError` at once where OpenTelemetry is not installed, or
    another process sends already.
    """
    send = sending_by(exporter or otlp_exporter())
    with trace_position(ledger) as place:
        task_status.started()
        await _Traces(ledger=ledger, share=share, clock=clock, connect=connect, place=place, send=send).serve()


@dataclass(kw_only=True, eq=False)
class _Traces:
    """Those of whatever ledger is at the path."""

    ledger: LedgerAddress
    share: float
    clock: Clock
    connect: Connect | None
    place: TracePosition
    send: Send
    told: str = ""
    """What was last in the way: it is said once."""

    async def serve(self) -> None:
        """Goes on until cancelled: who looks on ends by an unreadable ledger no more than others do."""
        while True:
            try:
                await self._send()
            except* OrchestratorError as errors:
                self._tell(leading(errors))
            await anyio.sleep(OPEN_AGAIN_S)

    async def _send(self) -> None:
        """Returns once the ledger is not at its path any more. One that is not there has nothing behind it."""
        file = file_identity(self.ledger)
        if file is None:
            self.place.write(BEGINNING)
        async with read_ledger(self.ledger, clock=self.clock, connect=self.connect) as opened:
            self.told = ""
            async with anyio.create_task_group() as tasks:
                sender = TraceSender(ledger=opened, place=self.place, share=self.share, send=self.send)
                tasks.start_soon(sender.serve)
                while file is not None and file_identity(self.ledger) == file:  # noqa: ASYNC110  nobody tells
                    await anyio.sleep(OPEN_AGAIN_S)
                tasks.cancel_scope.cancel()

    def _tell(self, error: BaseException) -> None:
        text = with_settings_named(message_of(error), flag_name)
        if text != self.told:
            log.warning("traces wait: %s", text)
        self.told = text
