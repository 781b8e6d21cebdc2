"""All rules in their order: from facts to what holds runs up, the first cause first.

A rule looks at facts and returns findings of one group of causes.
"""

from collections.abc import Callable, Iterator
from typing import Final

from orchestrator.core.diagnosis import ledger_rules, limit_rules, run_rules, server_rules, service_rules
from orchestrator.core.diagnosis.causes import RANK, Finding
from orchestrator.core.diagnosis.facts import Facts

RULES: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    ledger_rules.usable_ledger,
    ledger_rules.disk,
    server_rules.server,
    ledger_rules.process,
    ledger_rules.expiry,
    run_rules.standstill,
    run_rules.reach,
    run_rules.members,
    run_rules.different_members,
    run_rules.webhooks,
    run_rules.stuck_batches,
    run_rules.refused_batches,
    run_rules.waiting_batches,
    limit_rules.binding_limits,
    limit_rules.unwanted,
    ledger_rules.left_raised,
    ledger_rules.pods_without_work,
    limit_rules.stray_refusals,
    service_rules.way,
    service_rules.health_answer,
    service_rules.clock,
    service_rules.workers,
)


def findings(facts: Facts) -> tuple[Finding, ...]:
    """What holds the runs up, the first cause first. Nothing where all goes as it should."""
    found = [finding for rule in RULES for finding in rule(facts)]
    return tuple(sorted(found, key=lambda finding: RANK[finding.cause]))
