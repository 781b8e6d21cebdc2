"""What is said of messages: by target of the configuration file, and together of all addresses that are written out."""

from typing import Final

from orchestrator.ledger import Ledger
from orchestrator.telemetry.metrics.labels import TARGETS_MAX, ClosedLabel
from orchestrator.telemetry.metrics.readings import Readings

WRITTEN_OUT: Final = "address"
"""What an address is called that stands in a pipeline or a command: it may hold a secret, and there may be many."""

RESULTS_OF_MESSAGES: Final = ("told", "given_up")


async def read_messages(ledger: Ledger, into: Readings) -> None:
    """Adds what the ledger says of messages. Raises `StorageError`."""
    waiting, ends = await ledger.reports.tallies.messages_waiting(), await ledger.reports.tallies.message_ends()
    targets = sorted({*waiting, *ends})
    label = ClosedLabel((each for each in targets if each), TARGETS_MAX)
    for target in targets:
        name = label(target) if target else WRITTEN_OUT
        into.add("notifications_waiting", name, value=waiting.get(target, 0))
        for result in RESULTS_OF_MESSAGES:
            into.add("notifications_total", name, result, value=ends.get(target, {}).get(result, 0))
