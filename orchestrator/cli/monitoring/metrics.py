"""`orchestrator metrics`: what monitoring is told, the alerts on it, and a dashboard of it."""

from typing import Annotated

import typer

from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.output import streams

Url = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help="Where the pages of the dashboard are, for links to them. Default: none."
    ),
]


class _MetricsGroup(NounGroup):
    default_verb = "rules"
    named_verb = None


commands = typer.Typer(
    cls=_MetricsGroup,
    rich_markup_mode="rich",
    help="What monitoring is told: metrics, alerts, a dashboard for Grafana. Without a verb the rules are printed.",
)


@commands.command("rules")
def metrics_rules(url: Url = None) -> None:
    """Print the alert rules for Prometheus, which say what to do when one fires.

    Example: orchestrator metrics rules > orchestrator.rules.yml
    """
    from orchestrator.telemetry.alerts.rule_file import rule_file

    streams.put_now(rule_file(url).encode())


@commands.command("grafana")
def metrics_grafana(url: Url = None) -> None:
    """Print a dashboard for Grafana, to be imported there.

    Example: orchestrator metrics grafana > orchestrator.json
    """
    from orchestrator.telemetry.alerts.grafana_dashboard import grafana_dashboard

    streams.put_now(grafana_dashboard(url))
