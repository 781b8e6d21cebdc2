"""`orchestrator ledger` and `orchestrator stop`: a ledger where it lies, and the end of whoever works on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.cli.service.ledger_places import ledger_copy, ledger_init
from orchestrator.core.text.figures import second
from orchestrator.core.text.wording import counted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import MIB

if TYPE_CHECKING:
    # at run time `--help` would pay for it
    from orchestrator.api.admin.ledger_admin import LedgerInfo
    from orchestrator.api.admin.process_stop import Stopped
    from orchestrator.views.ledger_server import ServerFacts, TableSize

ProcessNamed = Annotated[
    str | None,
    typer.Argument(
        metavar="PROCESS", help="One of those of `status --processes`: its name, or a part of it. Default: all."
    ),
]
Copy = Annotated[Path, typer.Argument(metavar="FILE", help="The copy. There must be no such file yet.")]


class _LedgerGroup(NounGroup):
    default_verb = "info"
    named_verb = None


commands = typer.Typer(
    cls=_LedgerGroup,
    rich_markup_mode="rich",
    help="The ledger, in a file or on a server. Without a verb its figures are shown.",
)


_shared = at_ledger("One JSON object on standard output.")


@commands.command("info")
@_shared
async def ledger_info(*, ledger: LedgerAddress, as_json: bool) -> None:
    """Show how large a ledger is, what it holds, and who works on it.

    Example: orchestrator ledger info
    """
    from orchestrator.api.admin.ledger_admin import ledger_info

    show_info(await ledger_info(ledger), as_json=as_json)


@commands.command("backup")
@_shared
async def ledger_backup(copy: Copy, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Write a copy of a ledger as it stands, also while it is in use.

    Example: orchestrator ledger backup copy.db
    """
    from orchestrator.api.admin.ledger_admin import ledger_backup

    found = await ledger_backup(ledger, copy)
    if as_json:
        streams.put_json(found)
    streams.say(f"{ledger} is copied to {found.copy}, {_size(found.file_bytes)}")


@commands.command("compact")
@_shared
async def ledger_compact(*, ledger: LedgerAddress, as_json: bool) -> None:
    """Give the unused room of a ledger back to the disk, while nobody works on it.

    Example: orchestrator ledger compact
    """
    from orchestrator.api.admin.ledger_admin import ledger_compact

    found = await ledger_compact(ledger)
    if as_json:
        streams.put_json(found)
    streams.say(f"{ledger}: {_size(found.bytes_before)} before, {_size(found.bytes_after)} now")


commands.command("init")(ledger_init)
commands.command("copy")(ledger_copy)


def show_info(found: "LedgerInfo", *, as_json: bool) -> None:
    """Prints the figures of a ledger."""
    if as_json:
        streams.put_json(found)
    else:
        tables.put_parts(tables.lines(_lines(found)))


def _lines(found: "LedgerInfo") -> Iterator[tuple[str, str]]:
    yield "ledger", found.ledger
    yield "schema", found.schema
    if found.server is None:
        yield "size", f"{_size(found.file_bytes)}, of which {_size(found.free_bytes)} unused"
        yield "log", _size(found.log_bytes)
    else:
        yield "size", f"{_size(found.file_bytes)}, of {_size(found.server.database_bytes)} of its database"
        yield from _server_lines(found.server)
    yield "worked on by", "\n".join(_at_work(found)) or "nobody"
    yield "rows", ""
    sizes = {} if found.server is None else {each.table: each for each in found.server.tables}
    for table, n in found.rows.items():
        yield f"  {table}", f"{n:,}{_room(sizes[table]) if table in sizes else ''}"


def _at_work(found: "LedgerInfo") -> Iterator[str]:
    """Each process once: who holds the ledger may say more of itself there than in its beats."""
    said_at = {each.process: f", heard of at {second(each.reported_at)}" for each in found.at_work}
    if (holder := found.holder) is not None:
        of_holder = next((each for each in said_at if f"{holder} ".startswith(f"{each} ")), "")
        yield holder + said_at.pop(of_holder, "")
    for each in found.at_work:
        if each.process in said_at:
            yield f"{each.process} since {second(each.since)} UTC{said_at[each.process]}"


def _server_lines(server: "ServerFacts") -> Iterator[tuple[str, str]]:
    yield "server", f"PostgreSQL {server.version}, as the role {server.role}"
    yield "connections", f"{server.our_connections} of ours, {server.connections} of {server.connections_max} in all"
    on_disk = "on its disk" if server.is_synced else "nowhere (fsync=off)"
    standbys = counted(server.standbys, "standby", "standbys")
    yield (
        "a commit is",
        f"{on_disk}, synchronous_commit={server.commits_wait_for}; {standbys}"
        + (f", waited for: {server.synchronous_standbys}" if server.synchronous_standbys else ", none is waited for"),
    )
    if (oldest := server.oldest_snapshot) is None:
        yield "oldest snapshot", "none but our own"
    else:
        yield "oldest snapshot", f"{oldest.holder}: {oldest.transactions:,} transactions ago"


def _room(size: "TableSize") -> str:
    """Of a table that takes any."""
    if size.bytes + size.index_bytes < MIB:
        return ""
    dead = f", {size.dead_rows:,} dead" if size.dead_rows else ""
    return f"   {_size(size.bytes)} and {_size(size.index_bytes)} of indexes{dead}"


def _size(number: int) -> str:
    return f"{number / MIB:,.1f} MiB"


BUSY_EXIT_CODE = 4


@at_ledger("What came of it, as JSON.")
async def stop(name: ProcessNamed = None, *, ledger: LedgerAddress, as_json: bool) -> int:
    """End the process that works on a ledger, as Ctrl-C there would.

    Those that wait for its place end, too. Of a ledger on a server all processes end, or the one that is named. Their
    runs go on with `resume` or `serve`. To hold one run only, see `pause`.

    Examples:
        orchestrator stop
        orchestrator stop 'process 4711 on nightly'
    """
    from orchestrator.api.admin.process_stop import stop

    return show_stopped(await stop(ledger, name), as_json=as_json)


def show_stopped(found: "Stopped", *, as_json: bool) -> int:
    """Prints what came of it; returns the exit code."""
    if as_json:
        streams.put_json(found)
    for line in _told(found):
        streams.say(line)
    return 0 if found.ended else BUSY_EXIT_CODE


def _told(found: "Stopped") -> Iterator[str]:
    if found.was is None:
        yield f"nobody works on {found.ledger}"
        return
    went_on = f"; by now it is {found.holder} that works on {found.ledger}" if found.holder and found.ended else ""
    if not found.processes:
        yield _end(found.was, has_ended=found.ended, has_answered=found.outcome is not None) + went_on
        return
    for each in found.processes:
        yield f"{each.process} was gone already" if each.was_gone else _end(each.process, has_ended=each.ended)
    if went_on:
        yield f"{found.holder} goes on with {found.ledger}"


def _end(process: str, *, has_ended: bool, has_answered: bool = True) -> str:
    if has_ended:
        return f"{process} has ended"
    how = "has not ended yet" if has_answered else "has not answered"
    return f"{process} {how}; it was asked to end, and will once it can. To end it at once, kill that process"
