"""The commands by which people and monitoring look on: the dashboard, metrics, messages, reports."""

from typing import Final

from orchestrator.cli.framework.command_groups import Members
from orchestrator.cli.monitoring import dashboard, metrics, notify, report

MONITORING: Final[Members] = {
    "dashboard": dashboard.commands,
    "metrics": metrics.commands,
    "notify": notify.commands,
    "report": report.report,
}
