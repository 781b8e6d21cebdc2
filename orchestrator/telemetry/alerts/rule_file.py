"""The alerts as a file of rules for Prometheus."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from orchestrator.telemetry.alerts.alert import Alert
from orchestrator.telemetry.alerts.registry import ALERTS

GROUP: Final = "orchestrator"
RUNBOOK: Final = "docs/reference/metrics.md"
"""Where the reference tells of each alert, from the root of the project."""

_HEAD: Final = """\
# Alerts on runs, pipelines and the process that works on the ledger.
# Written by: orchestrator metrics rules
groups:
  - name: {group}
    rules:
"""


def rule_file(dashboard: str | None = None, alerts: Sequence[Alert] = ALERTS) -> str:
    """The file, in YAML; with links to the dashboard where its address is known."""
    return _HEAD.format(group=GROUP) + "".join(line for alert in alerts for line in _rule(alert, dashboard))


def _rule(alert: Alert, dashboard: str | None) -> Iterator[str]:
    yield f"      - alert: {alert.name}\n"
    yield f"        expr: {_text(alert.expr)}\n"
    yield f"        for: {alert.for_}\n"
    yield f"        labels: {{severity: {alert.severity.value}}}\n"
    yield "        annotations:\n"
    yield f"          summary: {_text(alert.summary)}\n"
    yield f"          description: {_text(alert.todo)}\n"
    yield f"          runbook: {_text(f'{RUNBOOK}#{alert.title.lower()}')}\n"
    if dashboard is not None:
        yield f"          dashboard: {_text(dashboard.rstrip('/') + alert.page)}\n"


def _text(value: str) -> str:
    """A text of JSON is one of YAML, too."""
    return msgspec.json.encode(value).decode()
