"""The brakes that a run has, as they are set."""

import msgspec

from orchestrator.core.gates.brakes import Canary, MaxFailures
from orchestrator.core.gates.failure_breaker import Rules


class BrakeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What of the settings of a run are brakes, and what these go by."""

    breaker: Rules = Rules()
    """When executions that fail in one way stop the sending, until some succeed."""

    canary: Canary = Canary()
    """Rows that go first."""

    max_failures: MaxFailures = MaxFailures()
    price_per_second: float | None = None
    """What a second of execution costs at its endpoint, in any currency; None: that is not known."""

    budget: float = 0.0
    """What it may cost; 0: anything."""

    budget_per_day: float = 0.0
    """What all runs of the ledger at its endpoint may cost in a day (UTC); 0: anything."""

    finish_by: int = 0
    """When it is to be finished (microseconds UTC); 0: whenever."""

    stop_late: bool = False
    """Whether what cannot be finished by then is not sent."""
