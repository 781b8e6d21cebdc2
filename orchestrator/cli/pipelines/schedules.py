"""`orchestrator schedules`: how schedules stand, what fires next, what fired, and what is wrong."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.command_groups import RecordedGroup
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams, tables
from orchestrator.core.text.local_time import local
from orchestrator.core.text.wording import counted
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.ledger_address import LedgerAddress

if TYPE_CHECKING:
    from orchestrator.views.flows import (
        ScheduleHistory,
        ScheduleStatus,
        ScheduleTrouble,
    )  # at run time `--help` would pay

TROUBLE_EXIT_CODE = 1

Name = Annotated[str, typer.Argument(metavar="NAME", help="The pipeline.")]
SomeName = Annotated[str | None, typer.Argument(metavar="NAME", help="The pipeline. Default: all of them.")]
Number = Annotated[int, typer.Option("--most", metavar="N", min=1, max=10_000, help="So many at most.")]
Note = Annotated[str, flags.option(command_flags.NOTE)]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="T", help="It goes on by itself then. Default: once somebody continues it."),
]
CatchUp = Annotated[
    bool, typer.Option("--catch-up", help="Make up for what was due meanwhile, as far back as its catch-up goes.")
]


commands = typer.Typer(
    cls=RecordedGroup,
    rich_markup_mode="rich",
    help="When pipelines fire, and what came of it. Without a verb they are listed.",
)
_shared = at_ledger("JSON on standard output.")


@commands.command("list")
@_shared
async def schedules_list(*, ledger: LedgerAddress, as_json: bool) -> None:
    """Show every pipeline: when it fires next, and how its last flow ended.

    Example: orchestrator schedules
    """
    from orchestrator.api.flows.schedules import schedules_list

    show_schedules(await schedules_list(ledger), ledger, as_json=as_json)


@commands.command("next")
@_shared
async def schedules_next(name: SomeName = None, most: Number = 10, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show the next fires, of one pipeline or of all.

    Example: orchestrator schedules next captions
    """
    from orchestrator.api.flows.schedules import schedules_next

    show_fires(await schedules_next(ledger, name, most), as_json=as_json)


@commands.command("history")
@_shared
async def schedules_history(name: Name, most: Number = 20, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show what fired and what did not, newest first, and the command that makes up for it.

    Example: orchestrator schedules history captions
    """
    from orchestrator.api.flows.schedules import schedules_history

    show_history(await schedules_history(ledger, name, most), name, as_json=as_json)


@commands.command("check")
@_shared
async def schedules_check(name: SomeName = None, *, ledger: LedgerAddress, as_json: bool) -> int:
    """Exit with 1 if anything is late, missed, held or failing, or nobody has looked or could be told.

    Example: orchestrator schedules check
    """
    from orchestrator.api.flows.schedules import schedules_check

    return show_troubles(await schedules_check(ledger, name), as_json=as_json)


@commands.command("pause")
@_shared
async def schedules_pause(
    name: Name, note: Note = "", until: Until = None, *, ledger: LedgerAddress, as_json: bool
) -> None:
    """Fire no more, until somebody continues it or a time comes; flows that there are go on.

    Example: orchestrator schedules pause captions --note stocktaking --until 2026-04-01
    """
    from orchestrator.api.flows.schedule_changes import schedules_pause

    found = await schedules_pause(ledger, name, note, until)
    ends = "" if found.paused_until is None else f" until {local(found.paused_until, found.zone)}"
    _show_changed(found, f"{name} is paused{ends}", as_json=as_json)


@commands.command("continue")
@_shared
async def schedules_continue(name: Name, catch_up: CatchUp = False, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Fire again; what was due during the pause is left out, unless it is to be made up for.

    Example: orchestrator schedules continue captions --catch-up
    """
    from orchestrator.api.flows.schedule_changes import schedules_continue

    found = await schedules_continue(ledger, name, catch_up=catch_up)
    soon = "" if found.next_at is None else f", next at {local(found.next_at, found.zone)}"
    _show_changed(found, f"{name} fires again{soon}", as_json=as_json)


@commands.command("remove")
@_shared
async def schedules_remove(name: Name, yes: Yes = False, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Fire no more for good; history and flows stay, and [bold]orchestrator apply[/] brings it back.

    Example: orchestrator schedules remove captions
    """
    from orchestrator.api.flows.schedule_changes import schedules_remove

    confirm(f"fire {name} no more, for good?", yes=yes)
    found = await schedules_remove(ledger, name)
    _show_changed(found, f"{name} fires no more; apply its file to bring it back", as_json=as_json)


def show_schedules(found: "Sequence[ScheduleStatus]", ledger: LedgerAddress, *, as_json: bool) -> None:
    """Prints when pipelines fire next, or why not."""
    tables.put_list(
        found,
        as_json=as_json,
        none=f"{ledger} has no pipelines yet; record one with: orchestrator apply FILE",
        headings=("PIPELINE", "FIRES", "NEXT", "FLOWS", "LAST", "ENDPOINTS"),
        row=_row,
    )


def _row(found: "ScheduleStatus") -> Iterable[str]:
    if found.paused_at is not None:
        until = "" if found.paused_until is None else f" until {local(found.paused_until, found.zone)}"
        next_at = f"paused{until}: {found.note}"
    else:
        next_at = "-" if found.next_at is None else local(found.next_at, found.zone)
    counts = {"waiting": found.waiting, "running": found.running, "held": found.on_hold}
    flows = ", ".join(f"{n:,} {state}" for state, n in counts.items() if n)
    last = "-" if found.last is None else f"{found.last.name} {found.last.state}"
    endpoints = ", ".join(dict.fromkeys(found.endpoints.values()))
    return found.name, found.fires, next_at, flows or "-", last, endpoints or "-"


def show_fires(found: Sequence[tuple[str, int, str]], *, as_json: bool) -> None:
    """Prints the next fires."""
    tables.put_list(
        found,
        as_json=as_json,
        none="nothing fires by itself",
        headings=("FIRE", "PIPELINE"),
        row=lambda fire: (fire[2], fire[0]),
        raw=lambda fire: {"pipeline": fire[0], "fire_at": fire[1], "fire": fire[2]},
    )


def show_history(found: "Sequence[ScheduleHistory]", name: str, *, as_json: bool) -> None:
    """Prints what came of the fires of a pipeline."""
    tables.put_list(
        found,
        as_json=as_json,
        none=f"{name} has not fired yet",
        headings=("FIRE (UTC)", "", "FLOW", "WHY"),
        row=_history_row,
    )


def _history_row(found: "ScheduleHistory") -> Iterable[str]:
    if found.backfill is None:
        return local(found.fire_at, "UTC"), found.what, found.flow or "-", found.why
    return local(found.fire_at, "UTC"), f"{found.what}: {counted(found.fires, 'fire')}", "-", found.backfill


def show_troubles(found: "Sequence[ScheduleTrouble]", *, as_json: bool) -> int:
    """Prints what is late, missed or failing; returns the exit code."""
    tables.put_list(
        found,
        as_json=as_json,
        none="all is well",
        headings=("PIPELINE", "", "WHAT"),
        row=lambda trouble: (trouble.pipeline, trouble.kind, trouble.text),
    )
    return TROUBLE_EXIT_CODE if found else 0


def _show_changed(found: "ScheduleStatus", text: str, *, as_json: bool) -> None:
    if as_json:
        streams.put_json(found)
    streams.say(text)
