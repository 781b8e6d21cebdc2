"""Who works on a ledger, or stands by, as people see it."""

from collections.abc import Iterator
from typing import Final

from orchestrator.cli.output import streams, tables
from orchestrator.core.text.figures import second
from orchestrator.views.processes import LedgerProcesses, ProcessShown

NAMED_MAX: Final = 3
"""So many endpoints are named; of more there is a number."""


def show_processes(found: LedgerProcesses, *, as_json: bool) -> None:
    """Prints them."""
    if as_json:
        streams.put_json(found)
        return
    if found.processes:
        headings = ("PROCESS", "VERSION", "SINCE (UTC)", "BEATS", "HAS")
        tables.put_parts(tables.columns(headings, map(_cells, found.processes)))
    for line in process_lines(found):
        streams.say(streams.shown(line))


def process_lines(found: LedgerProcesses) -> Iterator[str]:
    """What there is to say besides."""
    if not found.processes:
        yield f"nobody works on {found.ledger}"
    for shard in found.free:
        left = "" if shard.left_at is None else f"; who had it was gone at {second(shard.left_at)} UTC"
        yield f"nobody has {_endpoints(shard.endpoints)}, where runs are not finished{left}"
    for lack in found.lacks:
        yield f"{lack.run} is not served by {lack.process}: {lack.why}"


def _cells(one: ProcessShown) -> tuple[str, ...]:
    return one.process, one.version or "", second(one.since), _beats(one), _has(one)


def _beats(one: ProcessShown) -> str:
    if one.is_beating is None:
        return "" if one.reported_at is None else second(one.reported_at).partition(" ")[2]
    if one.is_beating:
        return "yes"
    return "no" if one.is_connected else "no, and is gone"


def _has(one: ProcessShown) -> str:
    if one.stands_by:
        return "stands by"
    if not one.shards:
        return "all of it"
    has = ["schedules"] if any(not each.shard for each in one.shards) else []
    endpoints = tuple(endpoint for each in one.shards for endpoint in each.endpoints)
    wanted = [f"wanted by {each.wanted_by}" for each in one.shards if each.wanted_by]
    return "; ".join([*has, *([_endpoints(endpoints)] if endpoints else []), *wanted])


def _endpoints(endpoints: tuple[str, ...]) -> str:
    named = ", ".join(endpoints[:NAMED_MAX])
    more = len(endpoints) - NAMED_MAX
    return f"{named} and {more:,} more" if more > 0 else named
