"""Has messages sent again when somebody asks for that: by whoever works on the ledger, or else by who asks."""

import re
from typing import Final

from orchestrator.api.runs.process_commands import beside
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.flows.outbox import Messages
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.views.flows import Resent

RESENT_MAX: Final = 100
"""So many of runs, and of pipelines, are sent at once by who asked for it; the others by whoever works next."""

_ID: Final = re.compile(r"(?P<table>[pr])(?P<number>[0-9]{1,18})")


async def resend_message(ledger: LedgerAddress, message: str | None, dependencies: Dependencies | None = None) -> int:
    """Has a message sent again, be it taken or given up, by whoever works on the ledger, now or next; None: all of
    which somebody could not be told. Each goes under its own id. Returns how many.

    Raises `UsageError` where there is no such message.
    """
    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        return await _due_again(opened, message, given.asked)


async def resend_now(
    ledger: LedgerAddress, message: str | None, connection: ConnectionSettings, dependencies: Dependencies | None = None
) -> Resent:
    """The same, but where nobody works on the ledger this process sends them, with what `connection` says of targets:
    without a `message`, also those that wait and were not tried yet. Raises `UsageError` where there is no such
    message.
    """
    from orchestrator.api.messages.outside_sender import OutsideSender  # noqa: PLC0415  pages never send

    given = dependencies or Dependencies()
    async with beside(ledger, given) as opened:
        number, by = await _due_again(opened, message, given.asked), await opened.holder()
        if by is not None:
            return Resent(messages=number, by=by)
        of_pipelines = await opened.flows.outbox.page(None, RESENT_MAX, waiting=True)
        of_runs = await opened.flows.run_outbox.page(None, RESENT_MAX, waiting=True)
        if not of_pipelines and not of_runs:
            return Resent(messages=0, by=None)
        sender = await OutsideSender.of(opened, connection, given)
        came = await sender.of_pipelines([told for told in of_pipelines if message in (None, f"p{told.id}")])
        came += await sender.of_runs([told for told in of_runs if message in (None, f"r{told.id}")])
    problems = tuple(dict.fromkeys(each.problem for each in came if each.problem is not None))
    taken = sum(each.problem is None for each in came)
    return Resent(messages=max(number, len(came)), by=None, taken=taken, problems=problems)


async def message_meant(ledger: Ledger, message: str) -> int | None:
    """The number in its table of the message of that id; None where there is none."""
    found = _ID.fullmatch(message)
    if found is None or not await _table(ledger, message).there_is(int(found["number"])):
        return None
    return int(found["number"])


def _table(ledger: Ledger, message: str) -> Messages:
    outbox = ledger.flows.outbox
    return outbox if message.startswith(outbox.prefix) else ledger.flows.run_outbox


async def _due_again(ledger: Ledger, message: str | None, asked: Asker) -> int:
    if message is None:
        return await ledger.flows.outbox.send_again(None) + await ledger.flows.run_outbox.send_again(None, asked=asked)
    number = await message_meant(ledger, message)
    if number is None:
        raise UsageError(f'there is no message "{message:.40}"; their ids: orchestrator notify list')
    return await _table(ledger, message).send_again(number, asked=asked)
