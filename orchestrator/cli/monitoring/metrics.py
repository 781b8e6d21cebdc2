"""`orchestrator metrics`: what monitoring is told, the alerts on it, and a dashboard of it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.framework.command_groups import ShownGroup
from orchestrator.cli.framework.runner import at_ledger, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.core.text.wording import counted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARDS, DashboardSettings
from orchestrator.settings.sources import choose

if TYPE_CHECKING:
    from orchestrator.telemetry.metrics.metric_files import WrittenMetrics  # at run time `--help` would pay for it

Target = Annotated[
    Path, typer.Argument(metavar="FILE", help="The file, as `orchestrator.prom` in the folder of the node exporter.")
]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Where the dashboard is, for links to its pages. Default: as the file says.",
    ),
]


class _MetricsGroup(ShownGroup):
    named_verb = None


commands = typer.Typer(
    cls=_MetricsGroup,
    rich_markup_mode="rich",
    help="What monitoring is told: metrics, alerts, a dashboard for Grafana. Without a verb the metrics are shown.",
)


@commands.command("show")
@at_ledger("The same as JSON: each metric with its values.", tells_raised=False)
async def metrics_show(*, ledger: LedgerAddress, as_json: bool) -> None:
    """Show every metric as Prometheus reads it.

    Example: orchestrator metrics show
    """
    from orchestrator.telemetry.metrics.metric_files import metrics_listed, metrics_shown

    if as_json:
        streams.put_json(await metrics_listed(ledger))
    else:
        streams.put_now((await metrics_shown(ledger)).body)


@commands.command("write")
@at_ledger("What was written, as JSON.", tells_raised=False)
async def metrics_write(target: Target, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Write every metric to a file, which appears whole: for the textfile collector of the node exporter.

    Example: orchestrator metrics write /var/lib/node_exporter/orchestrator.prom
    """
    from orchestrator.telemetry.metrics.metric_files import metrics_write

    show_written(await metrics_write(ledger, target), as_json=as_json)


@commands.command("rules")
def metrics_rules(url: Url = None) -> None:
    """Print the alert rules for Prometheus, which say what to do when one fires.

    Example: orchestrator metrics rules > orchestrator.rules.yml
    """
    from orchestrator.telemetry.alerts.rule_file import rule_file

    streams.put_now(rule_file(url or _known_url()).encode())


@commands.command("grafana")
def metrics_grafana(url: Url = None) -> None:
    """Print a dashboard for Grafana, to be imported there.

    Example: orchestrator metrics grafana > orchestrator.json
    """
    from orchestrator.telemetry.alerts.grafana_dashboard import grafana_dashboard

    streams.put_now(grafana_dashboard(url or _known_url()))


def _known_url() -> str | None:
    """Where the dashboard is by the environment and the file; None where neither says it."""
    with exit_if_refused():
        return choose({}, os.environ, DASHBOARDS).build(DashboardSettings).url


def show_written(found: "WrittenMetrics", *, as_json: bool) -> None:
    """Says what was written."""
    if as_json:
        streams.put_json(found)
    streams.say(f"{found.file}: {counted(found.series, 'series', 'series')}")
