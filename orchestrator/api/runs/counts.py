"""The ledger's counts as people see them."""

from collections.abc import Mapping
from typing import Any, Final

from orchestrator.core.jobs.job import Unsaved
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.run_counters import FAILED_EXECUTIONS, NO_NEWS, PAID_TWICE, RETRIED_EXECUTIONS
from orchestrator.ledger.jobs.margins import Margins
from orchestrator.views.status import MarginSummary, UncertainSummary

_STATES: Final = tuple(state.value for state in State)


def figures_of(counts: Mapping[str, int], margins: Margins) -> dict[str, Any]:
    """What a `Summary` and a `RunStatus` have in common, by field."""
    found = {state: counts.get(state, 0) for state in _STATES}
    return {
        "jobs": {"total": sum(found.values())} | found,
        "uncertain": UncertainSummary(
            seen=counts.get("uncertain_seen", 0),
            adopted=counts.get("uncertain_adopted", 0),
            resubmitted=counts.get("uncertain_resubmitted", 0),
        ),
        "lost": counts.get("lost", 0),
        "expired": counts.get("expired", 0),
        "paid_twice": counts.get(PAID_TWICE, 0),
        "failed_executions": counts.get(FAILED_EXECUTIONS, 0),
        "retried_executions": counts.get(RETRIED_EXECUTIONS, 0),
        "no_news": counts.get(NO_NEWS, 0),
        "unsaved": sum(counts.get(why.value, 0) for why in Unsaved),
        "margin_s": MarginSummary(min=margins.min, p1=margins.p1),
    }
