"""Plays worlds of ten weeks, and kills real processes.

python -m tests.firing [--seeds 200] [--first 1] [--kills 0] [--record]

Each seed draws three pipelines, and for ten weeks looks, sleeps, pauses, changes, and clocks that are set back; a process
is killed before and after each commit of all that is done. With `--kills 100`, a serve and three ticks on one ledger are
killed so often as well. Exits with 1 where a fire is in none or in several of `fires` and `gaps`, has not one flow, or
where a flow does not come to its end.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.crashes.firing import killed
from tests.firing.weeks import Weeks
from tests.guarantees.recording import record


def main() -> None:
    """Plays, kills, prints a line each, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.firing", description="Schedules over ten weeks.")
    parser.add_argument("--seeds", type=int, default=200, help="how many worlds (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=0, help="of real processes (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/guarantees.md")
    chosen = parser.parse_args()
    problems = fires = commits = 0
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        with tempfile.TemporaryDirectory() as folder:
            weeks = Weeks(seed, Path(folder))
            weeks.play()
            found = weeks.problems()
        print(f"seed {seed}: {weeks.fires:,} fires, {weeks.gaps:,} gaps, {weeks.commits:,} commits", flush=True)
        for problem in found:
            print(f"     {problem}; repeat with --seeds 1 --first {seed}")
        problems, fires, commits = problems + len(found), fires + weeks.fires, commits + weeks.commits
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
