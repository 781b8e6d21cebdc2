"""What messages are owed to whom, and what became of each: taken, tried again, given up."""

import re
from typing import Final

from orchestrator.api.runs.process_commands import beside
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.outbox import Message, Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.views.flows import MessageLine, MessagePage, MessageStanding, TargetLine

_PLACE: Final = re.compile(r"p(?P<p>[0-9]{1,18})r(?P<r>[0-9]{1,18})")
_BEHIND_ALL: Final = 10**17


async def message_page(
    ledger: Ledger, held_by: str | None, *, most: int, after: str | None = None, waiting: bool = False
) -> MessagePage:
    """Messages, the latest first, from behind `after` on, which an earlier page said. Raises `UsageError`."""
    before = {"p": _BEHIND_ALL, "r": _BEHIND_ALL}
    if after is not None:
        if (place := _PLACE.fullmatch(after)) is None:
            raise UsageError(f'"{after:.40}" is no place of a list of messages')
        before = {"p": int(place["p"]), "r": int(place["r"])}
    outbox, of_runs = ledger.flows.outbox, ledger.flows.run_outbox
    found = [*map(_of_pipeline, await outbox.page(before["p"], most + 1, waiting=waiting))]
    found += [*map(_of_run, await of_runs.page(before["r"], most + 1, waiting=waiting))]
    found.sort(key=lambda line: -line.owed_at)
    for line in found[:most]:
        before[line.id[0]] = int(line.id[1:])
    return MessagePage(
        targets=await _targets(ledger),
        lines=tuple(found[:most]),
        waiting=waiting,
        after=f"p{before['p']}r{before['r']}" if len(found) > most else None,
        holder=held_by,
    )


async def messages_list(
    ledger: LedgerAddress, *, most: int, waiting: bool = False, dependencies: Dependencies | None = None
) -> MessagePage:
    """The same of the ledger at that path."""
    async with beside(ledger, dependencies) as opened:
        return await message_page(opened, await opened.holder_or_next(), most=most, waiting=waiting)


async def _targets(ledger: Ledger) -> tuple[TargetLine, ...]:
    found: dict[str, TargetLine] = {}
    for outbox in (ledger.flows.outbox, ledger.flows.run_outbox):
        for each in await outbox.owed_by_target():
            before = found.get(each.target)
            found[each.target] = TargetLine(
                target=each.target,
                owed=each.number + (0 if before is None else before.owed),
                since=each.since if before is None else min(each.since, before.since),
                problem=each.problem or ("" if before is None else before.problem),
            )
    return tuple(found[target] for target in sorted(found))


def _of_pipeline(message: Notification) -> MessageLine:
    name = message.flow or message.pipeline_name
    return _line(message, "p", name, news=message.news, flow=message.flow, pipeline=message.pipeline)


def _of_run(message: RunMessage) -> MessageLine:
    return _line(message, "r", message.name, news=message.news, run=message.run)


def _line(
    message: Message,
    table: str,
    name: str,
    *,
    news: str,
    run: int | None = None,
    flow: str | None = None,
    pipeline: int | None = None,
) -> MessageLine:
    standing = MessageStanding.OWED
    if message.taken_at is not None:
        standing = MessageStanding.TAKEN
    elif message.given_up_at is not None:
        standing = MessageStanding.GIVEN_UP
    return MessageLine(
        id=f"{table}{message.id}",
        name=name,
        run=run,
        flow=flow,
        pipeline=pipeline,
        news=str(news),
        target=message.target,
        standing=standing,
        owed_at=message.owed_at,
        due_at=message.due_at,
        taken_at=message.taken_at,
        given_up_at=message.given_up_at,
        tries=message.tries,
        problem=message.problem,
    )
