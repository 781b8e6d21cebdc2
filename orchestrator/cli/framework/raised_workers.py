"""What is paid and was left behind, raised workers and pods: every command says so at its end."""

import sys
from collections.abc import Sequence

from orchestrator.cli.output import streams
from orchestrator.core.gates.scaling_override import RaisedWorkers
from orchestrator.core.pods.paid_pod import PaidPod
from orchestrator.core.service.profiles import with_profile
from orchestrator.core.text.figures import minute
from orchestrator.errors import OrchestratorError
from orchestrator.settings.addresses.ledger_address import LedgerAddress


async def tell_raised(ledger: LedgerAddress) -> None:
    """Says it in a terminal, unless somebody works on the ledger, who puts them back. Never fails."""
    if not sys.stderr.isatty():
        return
    from orchestrator.api.inspect.paid_pods import left_paid

    try:
        workers, pods = await left_paid(ledger)
    except OrchestratorError:  # the command itself has told what there is to tell of a ledger that cannot be read
        return
    for line in (*raised_lines(workers), *paid_pod_lines(pods)):
        streams.warn(line)


def raised_lines(found: Sequence[RaisedWorkers]) -> list[str]:
    """One for each endpoint, for people."""
    return [
        f"{with_profile(each.endpoint, each.service_url)} still has {each.raised} instead of {each.before}, since"
        f" {minute(each.since)} UTC: they are paid. Whoever works on"
        " this ledger next puts them back; to do that at once: orchestrator runs tidy"
        for each in found
    ]


def paid_pod_lines(found: Sequence[PaidPod]) -> list[str]:
    """One for each pod that nobody ends, for people."""
    return [
        f"pod {each.shown} of the run {each.run} is paid, since {minute(each.since)} UTC. Whoever works on this ledger"
        " next ends it; to do that at once: orchestrator runs tidy"
        for each in found
    ]
