"""`orchestrator ledger init` and `copy`: a ledger comes to a place."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework.flags import option
from orchestrator.cli.framework.runner import execute, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.parsers.name_parsers import parse_ledger

if TYPE_CHECKING:
    from orchestrator.api.admin.ledger_copy import LedgerCopied  # at run time `--help` would pay for it
    from orchestrator.api.admin.ledger_init import LedgerMade

Source = Annotated[str, typer.Argument(metavar="LEDGER", help="The ledger: a file, or the URL of one on a server.")]
Target = Annotated[str, typer.Argument(metavar="TO", help="Where it is to go. Nothing may be in it yet.")]
Json = Annotated[bool | None, option(command_flags.JSON, "What was copied, as JSON.")]

Place = Annotated[str, typer.Argument(metavar="LEDGER", help="Where it is to be: a file, or a URL.")]
Made = Annotated[bool | None, option(command_flags.JSON, "What was made, and the grants, as JSON.")]

TENTHS: Final = 10

ROLES: Final = {
    "owner": "the owner: makes the tables, and brings them up to date",
    "engine": "engines, and whoever gives commands: rows only",
    "reader": "who only looks: status, results, the dashboard",
}

Tell = Callable[[int, int], None]


def ledger_copy(source: Source, target: Target, json: Json = None) -> None:
    """Move a ledger into a database on a server, or back into a file.

    Its runs go on there; the ledger that it was copied from says where it went, and is used no more. Nobody may work on
    either.

    Examples:
        orchestrator ledger copy orchestrator.db postgresql://me@db.example/batches
        orchestrator ledger copy postgresql://me@db.example/batches orchestrator.db
    """
    with exit_if_refused():
        of, to = _address(source), _address(target)
    raise typer.Exit(execute(partial(_copy, of, to, as_json=bool(json))))


def ledger_init(ledger: Place, json: Made = None) -> None:
    """Make a ledger on a server, and say who may do what with it.

    It makes the schema and the tables, or brings them up to date, and prints the SQL by which an administrator makes
    roles that can work with the ledger, and roles that can only read it. What is there already is left alone.

    Example: orchestrator ledger init postgresql://me@db.example/batches
    """
    with exit_if_refused():
        at = _address(ledger)
    raise typer.Exit(execute(partial(_init, at, as_json=bool(json))))


async def _init(ledger: LedgerAddress, *, as_json: bool) -> None:
    from orchestrator.api.admin.ledger_init import ledger_init

    show_made(await ledger_init(ledger), as_json=as_json)


def show_made(made: "LedgerMade", *, as_json: bool) -> None:
    """Prints what was made, and the grants."""
    if as_json:
        streams.put_json(made)
    if made.found is None:
        streams.say(f"{made.ledger}: made, with version {made.schema} of the tables")
    elif made.found == made.schema:
        streams.say(f"{made.ledger}: is there already, with version {made.schema} of the tables")
    else:
        streams.say(f"{made.ledger}: brought from version {made.found} of the tables to {made.schema}")
    if made.grants and not as_json:
        streams.put_text("".join(_sql(made)))


def _sql(made: "LedgerMade") -> Iterator[str]:
    for what, statements in made.grants.items():
        yield f"-- {ROLES[what]}\n"
        yield from (f"{statement};\n" for statement in statements)


def _address(text: str) -> LedgerAddress:
    try:
        return parse_ledger(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


async def _copy(source: LedgerAddress, target: LedgerAddress, *, as_json: bool) -> None:
    from orchestrator.api.admin.ledger_copy import ledger_copy

    with _progress() as tell:
        copied = await ledger_copy(source, target, tell)
    show_copied(copied, as_json=as_json)


@contextmanager
def _progress() -> Iterator[Tell]:
    """Shows how far it has come: a bar on a terminal, elsewhere a line for each tenth."""
    if not streams.can_draw(sys.stderr):
        yield _Tenths().tell
        return
    from rich.progress import Progress

    from orchestrator.cli.output.live_display import terminal

    with Progress(console=terminal(), transient=True) as bars:
        bar = bars.add_task("rows")
        yield lambda done, total: bars.update(bar, completed=done, total=total)


class _Tenths:
    def __init__(self) -> None:
        self._told = 0

    def tell(self, done: int, total: int) -> None:
        tenths = TENTHS * done // total
        if tenths > self._told:
            self._told = tenths
            streams.say(f"copied, or compared, {done:,} of {total:,} rows")


def show_copied(copied: "LedgerCopied", *, as_json: bool) -> None:
    """Prints what was copied, and what is to be done with it."""
    if as_json:
        streams.put_json(copied)
    if copied.was_there:
        streams.say(f"{copied.ledger} was copied to {copied.copied_to} before; there is nothing left to do")
    else:
        streams.say(
            f"{copied.ledger} is copied to {copied.copied_to}: {counted(copied.rows['runs'], 'run')},"
            f" {counted(copied.rows['jobs'], 'job')}, {counted(sum(copied.rows.values()), 'row')} in all, and compared."
            " It goes on there, and is used no more here"
        )
        if is_object_url(copied.copied_to):
            streams.say(f"what roles need to work with it: orchestrator ledger init {copied.copied_to}")
    for path in copied.beside:
        streams.say(f"copied along, for this machine: {path}")
