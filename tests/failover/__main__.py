"""Kills, stops and cuts off the process that owns a ledger on a server, and sees whether another one takes its place.

python -m tests.failover [--times 1] [--jobs 400] [--record] [FAULT ...]

A fault is killed, stopped:8, stopped:30 (it stands still for so many seconds, and goes on), cut-off:20 (from the ledger)
or asked (to stop); all of them, if none is named. Real processes: two that serve, one that takes a run in and follows it.
Exits with 1 where a request came of a process whose successor had sent, where nothing was sent for more than ten
seconds, where the limit was passed, where a job has not exactly one result, or where more was paid twice than was uncertain.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Final

import anyio

from tests.failover.scene import HANDED_OVER_S_MAX, NAMES, SILENCE_S_MAX, Ended, Fault, key_of, scene
from tests.guarantees.recording import record
from tests.postgres.databases import Databases
from tests.postgres.server import server_url
from tests.system.processes import Desk, Service

ALL: Final = ("killed", "stopped:8", "stopped:30", "cut-off:20", "asked")
HEAD: Final = (
    f"{'fault':>12}{'jobs':>7}{'results':>9}{'accepted':>10}{'uncertain':>11}{'silence':>9}{'late':>6}   owners"
)


def main() -> None:
    """Goes through the faults, prints a line for each, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover", description="Owners of a ledger, lost.")
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="see above (default: each once)")
    parser.add_argument("--times", type=int, default=1, help="how often each (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=400, help="of each run (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    print(HEAD)
    ends: list[Ended] = []
    with tempfile.TemporaryDirectory() as folder, server_url(Path(folder), is_durable=True) as url:
        databases = Databases(url)
        for text in chosen.times * (chosen.faults or list(ALL)):
            ends.append(_one(databases, text, jobs=chosen.jobs))
            print(_line(text, ends[-1]), flush=True)
        databases.close()
    silences = [end.silence_s for end in ends if end.fault is not Fault.ASKED]
    if silences:
        print(f"silence: median {median(silences):.1f} s, at most {max(silences):.1f} s")
    if chosen.record:
        _record(ends, f"python -m tests.failover --times {chosen.times}")
    sys.exit(1 if any(end.faults() for end in ends) else 0)


def _one(databases: Databases, text: str, *, jobs: int) -> Ended:
    name, _, lasts = text.partition(":")
    service = Service(other_keys=[key_of(each) for each in NAMES])
    try:
        with tempfile.TemporaryDirectory() as folder, databases.one() as url:
            return anyio.run(_gone_through, Desk(Path(folder)), service, str(url), Fault(name), float(lasts or 0), jobs)
    finally:
        service.stop()


async def _gone_through(desk: Desk, service: Service, url: str, fault: Fault, lasts_s: float, jobs: int) -> Ended:
    async with scene(desk, service, url, jobs=jobs) as at:
        return await at.go_through(fault, lasts_s, after=jobs // 4)


def _record(ends: list[Ended], command: str) -> None:
    gone = [end.silence_s for end in ends if end.fault is not Fault.ASKED]
    asked = [end.silence_s for end in ends if end.fault is Fault.ASKED]
    record("owners killed, stopped, cut off or asked to stop", len(ends), "times", command)
    if gone:
        record("longest time without a request after an owner was gone", max(gone), "s", command, at_most=SILENCE_S_MAX)
    if asked:
        record("the same where it was asked to stop", max(asked), "s", command, at_most=HANDED_OVER_S_MAX)
    late = sum(end.late for end in ends)
    record("requests of an owner after its successor's first", late, "requests", command, at_most=0)
    twice = sum(end.accepted - end.jobs for end in ends)
    uncertain = sum(end.uncertain for end in ends)
    record("jobs paid twice by a take-over", twice, f"of {sum(end.jobs for end in ends):,}", command, at_most=uncertain)


def _line(text: str, end: Ended) -> str:
    told = (
        f"{text:>12}{end.jobs:7}{end.results:9}{end.accepted:10}{end.uncertain:11}{end.silence_s:8.1f}s{end.late:6}"
        f"   {', '.join(end.owners)}"
    )
    return "\n".join((told, *(f"     {fault}" for fault in end.faults())))


if __name__ == "__main__":
    main()
