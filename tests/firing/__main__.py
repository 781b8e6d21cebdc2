"""Plays worlds of ten weeks, and kills real processes.

python -m tests.firing [--seeds 200] [--first 1] [--kills 0] [--processes 1] [--record]

Each seed draws three pipelines, and for ten weeks looks, sleeps, pauses, changes, and clocks that are set back; a process
is killed before and after each commit of all that is done. With `--kills 100`, a serve and three ticks on one ledger are
killed so often as well. Exits with 1 where a fire is in none or in several of `fires` and `gaps`, has not one flow, or
where a flow does not come to its end.
"""

import argparse
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from tests.crashes.firing import killed
from tests.firing.weeks import played
from tests.guarantees.recording import record

SEEDS_EACH: Final = 4
"""So many worlds are played by one process: those that are killed leave their files open, hundreds in each, and what they
knew in memory, so that twenty worlds take three times as long each. (An executor of `concurrent.futures` that is to
begin a new process then may wait for ever in Python 3.11.)
"""


def main() -> None:
    """Plays, kills, prints a line each, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.firing", description="Schedules over ten weeks.")
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=0, help="of real processes (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=1, help="at a time (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    problems = fires = commits = 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with get_context("spawn").Pool(chosen.processes, maxtasksperchild=SEEDS_EACH) as pool:
        for seed, world in zip(seeds, pool.imap(played, seeds), strict=True):
            print(f"seed {seed}: {world.fires:,} fires, {world.gaps:,} gaps, {world.commits:,} commits", flush=True)
            for problem in world.problems:
                print(f"     {problem}; repeat with --seeds 1 --first {seed}")
            problems += len(world.problems)
            fires, commits = fires + world.fires, commits + world.commits
    if chosen.kills:
        with tempfile.TemporaryDirectory() as folder:
            after_kills = killed(Path(folder), chosen.kills, chosen.first)
        print("\n".join(after_kills) or f"{chosen.kills} kills: each fire in one place, each flow at its end")
        problems += len(after_kills)
    if chosen.record:
        command = f"python -m tests.firing --seeds {chosen.seeds} --kills {chosen.kills}"
        record("fires of ten weeks in no place or in two", problems, "fires", command, at_most=0)
        record("fires that were looked for", fires, "fires", command)
        record("commits at which a process that fires was killed", commits, "commits", command)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
