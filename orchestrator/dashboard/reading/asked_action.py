"""What was asked from a page, and what has come of it, where the page's address says that."""

from typing import Final

from orchestrator.api.actions.action_lines import action_line
from orchestrator.dashboard.reading.ledger_reader import LedgerReader
from orchestrator.views.actions import ActionLine

NUMBER_CHARS: Final = 18


async def asked_action(reader: LedgerReader, number: str) -> ActionLine | None:
    """The action of that number; None where there is none, or it is no number."""
    if not (number.isascii() and number.isdigit() and len(number) <= NUMBER_CHARS):
        return None
    async with reader.borrowed() as ledger:
        return await action_line(ledger, await ledger.holder(), int(number))
