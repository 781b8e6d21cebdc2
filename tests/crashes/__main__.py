"""Kills real processes at random moments, many times, and counts what it cost.

python -m tests.crashes [--kills 200] [--kills-per-run 10] [--jobs 2000] [--seed 1] [--commits]
                       [--lock-s 0] [--marks kept|removed|torn] [--record] [--side-by-side]

Each run sends its jobs to a service in another process, which loses 2 % of its answers and 10 % of its webhooks; every
other run is collected by polling alone. The ledger is audited as each kill has left it. Exits with 1 where a job has
not exactly one outcome, where more was paid twice than uncertain submissions were sent again, where more is uncertain
than was in doubt (requests really in flight at the kills, and lost answers; all that was claimed, where the marks of
what may have left are spoilt after each kill), where a job fails because of the kills, or where a ledger is damaged.
With `--commits`, a small run on virtual time is killed at each of its commits first, before it and after it; with
`--lock-s 30`, another program holds the ledger's lock for so long, the run stops, and goes on later.

With `--side-by-side`, three runs at a time share a ledger, each with its own process: one works, two follow. They are
killed, stopped for a while, and interrupted, the one that works as often as the others together; others ask for
something meanwhile. Exits with 1, too, where a command is lost or carried out twice.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Final

from tests.crashes.batched import PlacedWorld
from tests.crashes.commits import LongWorld, World, commits_of_a_run, killed
from tests.crashes.kills import Killed, killed_run
from tests.crashes.locked import locked_run
from tests.crashes.side_by_side import Disturbance
from tests.guarantees.recording import record
from tests.system.processes import Desk, Service

ANSWERS_DROPPED: Final = 0.02
HOOKS_LOST: Final = 0.1
LINGER_S: Final = 0.3

SPOILERS: Final[Mapping[str, Callable[[Path], object]]] = MappingProxyType(
    {
        "removed": lambda marks: marks.unlink(missing_ok=True),
        "torn": lambda marks: marks.write_bytes(marks.read_bytes()[:-8]),
    }
)

HEAD: Final = (
    f"{'run':>4}{'kills':>7}{'jobs':>7}{'results':>9}{'given up':>10}{'answers lost':>14}{'claimed':>9}{'in flight':>11}{'uncertain':>11}"
    f"{'adopted':>9}{'sent again':>12}{'paid twice':>12}{'damaged':>9}"
)


def main() -> None:
    """Kills, prints a line for each run, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.crashes", description="Real processes, killed.")
    parser.add_argument("--kills", type=int, default=200, help="how many altogether (default: %(default)s)")
    parser.add_argument("--kills-per-run", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=2_000, help="jobs of each run (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="default: %(default)s")
    parser.add_argument("--commits", action="store_true", help="at each commit of a small run, too")
    parser.add_argument("--lock-s", type=float, default=0, help="hold the lock for so long, first (default: not)")
    parser.add_argument(
        "--marks", choices=("kept", *SPOILERS), default="kept", help="what becomes of LEDGER.sent at each kill"
    )
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    parser.add_argument("--side-by-side", action="store_true", help="several runs on one ledger, and nothing else")
    chosen = parser.parse_args()
    if chosen.side_by_side:
        sys.exit(_side_by_side(chosen.seed, jobs=chosen.jobs, acts=chosen.kills, acts_each=chosen.kills_per_run))
    if chosen.commits:
        _at_commits()
    if chosen.lock_s:
        _locked(chosen.lock_s)
    print(HEAD)
    runs: list[Killed] = []
    while (left := chosen.kills - sum(run.kills for run in runs)) > 0:
        ended = _one(
            chosen.seed + len(runs),
            jobs=chosen.jobs,
            kills=min(left, chosen.kills_per_run),
            spoil=SPOILERS.get(chosen.marks),
        )
        runs.append(ended)
        print(_line(len(runs), ended), flush=True)
        for fault in ended.faults():
            print(f"     {fault}; repeat with --kills {ended.kills} --seed {chosen.seed + len(runs) - 1}")
    if chosen.record:
        _record(runs, f"python -m tests.crashes --kills {chosen.kills} --kills-per-run {chosen.kills_per_run}")
    sys.exit(1 if any(run.faults() for run in runs) else 0)


def _at_commits() -> None:
    for kind, what in ((World, "the run"), (LongWorld, "the resumable jobs"), (PlacedWorld, "the batches")):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            commits = commits_of_a_run(folder, kind)
            for number, after in product(range(1, commits + 1), (False, True)):
                place = folder / f"{number} {after}"
                place.mkdir()
                killed(place, number, after=after, kind=kind)
        print(f"killed before and after each of {commits} commits: each time the next process ended {what}", flush=True)


def _locked(hold_s: float) -> None:
    service = Service(finish_after_s=(0.05, 0.5))
    try:
        with tempfile.TemporaryDirectory() as folder:
            faults = locked_run(Desk(Path(folder)), service, hold_s=hold_s)
    finally:
        service.stop()
    if faults:
        sys.exit("\n".join(faults))
    print(f"the lock held for {hold_s:g} s: stopped with exit code 3, went on, one result for each job", flush=True)


def _one(seed: int, *, jobs: int, kills: int, spoil: Callable[[Path], object] | None) -> Killed:
    webhooks = bool(seed % 2)
    service = Service(
        seed=seed, answers_dropped=ANSWERS_DROPPED, hooks_lost=HOOKS_LOST, finish_after_s=(0.05, 0.5), hook_gap_s=0.3
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            return killed_run(
                Desk(Path(folder)), service, jobs=jobs, kills=kills, seed=seed, webhooks=webhooks, linger_s=LINGER_S,
                spoil=spoil,
            )  # fmt: skip
    finally:
        service.stop()


def _side_by_side(seed: int, *, jobs: int, acts: int, acts_each: int) -> int:
    """The exit code, once so much has happened to them."""
    is_bad = False
    print(
        f"{'seed':>4}{'jobs':>7}{'outcomes':>10}{'taken over':>12}{'uncertain':>11}{'in doubt':>10}{'paid twice':>12}{'commands':>10}"
    )
    for n in range(-(-acts // acts_each)):
        service = Service(seed=seed + n, answers_dropped=ANSWERS_DROPPED, finish_after_s=(0.05, 0.5))
        try:
            with tempfile.TemporaryDirectory() as folder:
                runs = Disturbance(Desk(Path(folder)), service, runs=3, jobs=jobs // 3, seed=seed + n)
                ended = runs.go_through(acts_each)
        finally:
            service.stop()
        print(
            f"{seed + n:4}{ended.jobs:7,}{ended.with_outcome:10,}{ended.taken_over:12}{ended.uncertain:11}{ended.in_doubt:10}{ended.paid_twice:12}{ended.asked.total():10}"
            f"   {', '.join(f'{number} x {act}' for act, number in ended.acts.items())}",
            flush=True,
        )
        for fault in ended.faults():
            is_bad = True
            print(f"     {fault}; repeat with --side-by-side --seed {seed + n}")
    return int(is_bad)


def _line(number: int, run: Killed) -> str:
    return (
        f"{number:4}{run.kills:7}{run.jobs:7,}{run.succeeded:9,}{run.given_up:10}{run.dropped:14}{run.claimed:9}{run.in_flight + run.connecting:11}{run.uncertain:11}"
        f"{run.adopted:9}{run.resubmitted:12}{run.paid_twice:12}{run.corrupt:9}"
    )


def _record(runs: list[Killed], command: str) -> None:
    jobs, kills = sum(run.jobs for run in runs), sum(run.kills for run in runs)
    record("processes killed", kills, "kills", command)
    missing = jobs - sum(run.succeeded + run.given_up for run in runs)
    record("jobs without their one outcome", missing, f"of {jobs:,} jobs", command, at_most=0)
    resubmitted = sum(run.resubmitted for run in runs)
    record("jobs paid twice", sum(run.paid_twice for run in runs), "jobs", command, at_most=resubmitted)
    in_doubt = sum(run.dropped + run.in_flight + run.connecting for run in runs)
    record("uncertain submissions", sum(run.uncertain for run in runs), "submissions", command, at_most=in_doubt)
    given_up = sum(run.given_up for run in runs)
    record("uncertain submissions that failed a job", given_up, f"of {jobs:,} jobs", command, at_most=0)
    record("damaged ledgers", sum(run.corrupt for run in runs), f"of {kills + len(runs):,}", command, at_most=0)


if __name__ == "__main__":
    main()
