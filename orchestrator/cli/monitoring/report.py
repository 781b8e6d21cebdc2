"""`orchestrator report`: how a run or a flow stands, as one file for people who have no access."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams
from orchestrator.core.text.figures import size_text
from orchestrator.errors import UsageError
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARDS, PAYLOADS, REDACT, DashboardSettings
from orchestrator.settings.sources import choose

if TYPE_CHECKING:
    from orchestrator.views.runs.report import WrittenReport  # at run time `--help` would pay for it

Of = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=options.run_names, help="The run or the flow, or the beginning of its name."
    ),
]
Target = Annotated[
    Path | None,
    typer.Option(str(run_request.OUTPUT), "-o", metavar="FILE.html", help="The file. Needed without JSON."),
]


@at_ledger("What the report says, as one JSON object.", PAYLOADS, REDACT, tells_raised=False)
async def report(name: Of, output: Target = None, *, flags: Flags, ledger: LedgerAddress, as_json: bool) -> None:
    """Write to one HTML file how a run or a flow stands.

    It holds the verdict, figures, charts, failures, holds and settings.

    It stands alone, has no script, and holds no inputs and outputs. With --payloads hide it leaves out what workers
    said, too, which may repeat them.

    Example: orchestrator report night-2 --output night-2.html
    """
    from orchestrator.clock import SystemClock, local_zone
    from orchestrator.dashboard.payload_redaction import Payloads
    from orchestrator.dashboard.rendering.report import read_report, write_report
    from orchestrator.settings.monitoring.dashboard_settings import PayloadChoice

    if output is None and not as_json:
        raise UsageError(f"name a file for the report with {run_request.OUTPUT}")
    settings = choose(flags, os.environ, DASHBOARDS).build(DashboardSettings)
    shows = Payloads(are_hidden=settings.payloads is PayloadChoice.HIDE, redacted=settings.redact)
    found = await read_report(ledger, name, shows=shows, clock=SystemClock())
    written = None if output is None else write_report(found, ledger, local_zone(), output)
    if as_json:
        streams.put_json(found)
    if written is not None:
        say_written(written)


def say_written(written: "WrittenReport") -> None:
    """Says where it is, and what it lacks."""
    without = f", without {' and '.join(written.left_out)}" if written.left_out else ""
    streams.say(f"{written.name} is written to {written.output}, {size_text(written.size)}{without}")
