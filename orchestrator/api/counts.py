"""The ledger's counts as people see them."""

from collections.abc import Mapping

from orchestrator.core.lifecycle import State
from orchestrator.ledger.margins import Margins
from orchestrator.views import MarginSummary, UncertainSummary


def state_counts(counts: Mapping[str, int]) -> dict[str, int]:
    """`total`, then one number for each state."""
    found = {state.value: counts.get(state.value, 0) for state in State}
    return {"total": sum(found.values())} | found


def uncertain_summary(counts: Mapping[str, int]) -> UncertainSummary:
    """What became of submissions whose answer never came."""
    return UncertainSummary(
        seen=counts.get("uncertain_seen", 0),
        adopted=counts.get("uncertain_adopted", 0),
        resubmitted=counts.get("uncertain_resubmitted", 0),
    )


def margin_summary(margins: Margins) -> MarginSummary:
    """The margins of a run."""
    return MarginSummary(min=margins.min, p1=margins.p1)
