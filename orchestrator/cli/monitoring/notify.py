"""`orchestrator notify`: whom messages reach, what is owed, and sending it again."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from orchestrator.views.flows import MessageLine, MessagePage, Resent, TestDelivery  # `--help` would pay for it

UNREACHED_EXIT_CODE = 1

Target = Annotated[str, typer.Argument(metavar="TARGET", help="A target of the configuration file, by its name.")]
MessageId = Annotated[
    str | None, typer.Argument(metavar="ID", help="The message. Default: all of which somebody could not be told.")
]
Number = Annotated[int, typer.Option("--most", metavar="N", min=1, max=10_000, help="So many at most.")]
Waiting = Annotated[bool, typer.Option("--waiting", help="Only those that are still to be sent.")]

_HEADINGS = ("id", "of", "news", "to", "since", "standing", "tries", "problem")

commands = typer.Typer(
    cls=NounGroup,
    rich_markup_mode="rich",
    help="What people are told, and whether it reaches them. Without a verb messages are listed.",
)
_shared = at_ledger("JSON on standard output.")


@commands.command("list")
@_shared
async def notify_list(most: Number = 50, waiting: Waiting = False, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show messages, the latest first: to whom, how often it was tried, and what is in the way.

    Example: orchestrator notify list --waiting
    """
    from orchestrator.api.messages.message_lists import messages_list

    show_messages(await messages_list(ledger, most=most, waiting=waiting), as_json=as_json)


@commands.command("test")
@_shared
async def notify_test(target: Target, *, ledger: LedgerAddress, as_json: bool, choices: Choices) -> int:  # noqa: ARG001
    """Send a target a message now. Exits with 1 where it does not take it.

    Example: orchestrator notify test ops
    """
    import os

    from orchestrator.api.messages.target_test import send_test
    from orchestrator.api.runs.service_connection import connection_of

    return show_test(await send_test(target, connection_of(choices, os.environ, key="")), as_json=as_json)


@commands.command("resend")
@_shared
async def notify_resend(message: MessageId = None, *, ledger: LedgerAddress, as_json: bool, choices: Choices) -> int:
    """Send messages again, under their ids: one, be it taken or given up, or all of which somebody could not be told.

    Whoever works on the ledger sends them; where nobody does, this command. It exits with 1 where one is not taken.

    Example: orchestrator notify resend r12
    """
    import os

    from orchestrator.api.messages.message_resend import resend_now
    from orchestrator.api.runs.service_connection import connection_of

    connection = connection_of(choices, os.environ, key="")
    return show_resent(await resend_now(ledger, message, connection), as_json=as_json)


def show_messages(page: "MessagePage", *, as_json: bool) -> None:
    """Prints messages."""
    if as_json:
        streams.put_json(page)
        return
    if not page.lines:
        streams.say("nobody was told anything yet" if not page.waiting else "no message waits")
        return
    tables.put_parts(tables.columns(_HEADINGS, map(_cells, page.lines)))
    for target in page.targets:
        if target.problem:
            who = target.target or "those whose address stands with a run or a pipeline"
            streams.say(f"{counted(target.owed, 'message')} wait for {who}: {target.problem}")


def _cells(line: "MessageLine") -> Iterator[str]:
    yield from (line.id, line.name, line.news, line.target or "-", local(line.owed_at, "UTC"), line.standing)
    yield from (f"{line.tries}", line.problem)


def show_test(came: "TestDelivery", *, as_json: bool) -> int:
    """Prints what came of a test; returns the exit code."""
    if as_json:
        streams.put_json(came)
    elif came.problem is None:
        streams.say(f"{came.target} has taken it")
    else:
        streams.say(f"{came.target} has not taken it: {came.problem}")
    return 0 if came.problem is None else UNREACHED_EXIT_CODE


def show_resent(came: "Resent", *, as_json: bool) -> int:
    """Prints what came of sending again; returns the exit code."""
    if as_json:
        streams.put_json(came)
    elif not came.messages:
        streams.say("there is no message of which somebody could not be told")
    elif came.by is not None:
        streams.say(f"{counted(came.messages, 'message')}: {came.by} sends them again now")
    else:
        streams.say(f"{came.taken or 0} of {counted(came.messages, 'message')} were taken")
        for problem in came.problems:
            streams.say(f"not taken: {problem}")
    return UNREACHED_EXIT_CODE if came.problems else 0
