"""What an alert is: when it fires, for how long that must hold, how bad it is, and what to do then."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

ALERT_PREFIX: Final = "Orchestrator"


class Severity(StrEnum):
    """Whom it should reach."""

    CRITICAL = "critical"
    """Somebody has to act now: money or results are being lost."""

    WARNING = "warning"
    """Somebody has to look today."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert."""

    name: str
    """Its last words are the anchor of its entry in the reference."""

    expr: str
    for_: str
    """How long `expr` must hold, as Prometheus writes it."""

    severity: Severity
    summary: str
    """In a line; `{{ $labels.endpoint }}` and the like are filled in by Prometheus."""

    todo: str
    """What it means, and what to do."""

    page: str = "/"
    """The page of the dashboard that shows it."""

    @property
    def title(self) -> str:
        """Its heading in the reference."""
        return self.name.removeprefix(ALERT_PREFIX)
