"""Who works on a ledger, or stands by, as people see it."""

from orchestrator.cli.output import streams, tables
from orchestrator.core.text.figures import second
from orchestrator.views.processes import LedgerProcesses, ProcessShown


def show_processes(found: LedgerProcesses, *, as_json: bool) -> None:
    """Prints them."""
    if as_json:
        streams.put_json(found)
        return
    if found.processes:
        headings = ("PROCESS", "VERSION", "SINCE (UTC)", "BEATS", "HAS")
        tables.put_parts(tables.columns(headings, map(_cells, found.processes)))
    for line in found.remarks:
        streams.say(streams.shown(line))


def _cells(one: ProcessShown) -> tuple[str, ...]:
    return one.process, one.version or "", second(one.since), _beats(one), one.has


def _beats(one: ProcessShown) -> str:
    if one.is_beating is None:
        return "" if one.reported_at is None else second(one.reported_at).partition(" ")[2]
    if one.is_beating:
        return "yes"
    return "no" if one.is_connected else "no, and is gone"
