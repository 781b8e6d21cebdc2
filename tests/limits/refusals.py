"""How much of the limits is used where requests are refused, by simulated hours.

python -m tests.limits.refusals [--held-out] [--minutes 60] [--limit 1000/10] [--only TEXT]

Sends at full speed, in virtual time, to services that refuse for several reasons (`tests/limits/worlds.py`), one hour
for each way of counting, and prints what was taken of what was possible, and the share that was answered 429. An hour at
1000/10 takes three seconds. With `--held-out` these are worlds that the controller was not found by.
"""

import argparse
import sys
from typing import Final

from orchestrator.core.limits.rate_pacer import Limit
from tests.limits.worlds import HELD_OUT, KINDS, WAYS, Kind, Outcome, Wanted, play

LIMITS: Final = (Limit(1000, 10), Limit(100, 10))


def main() -> None:
    """Plays, prints the table, and exits with 1 where too little is used or too much refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.limits.refusals", description="Hours with 429s.")
    parser.add_argument("--held-out", action="store_true", help="worlds that the controller was not found by")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long each is (default: 60)")
    parser.add_argument("--limit", action="append", help="REQUESTS/SECONDS (default: 1000/10 and 100/10)")
    parser.add_argument("--only", default="", help="kinds whose names have this in them")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    limits = [_limit(text) for text in chosen.limit] if chosen.limit else LIMITS
    missed = 0
    for limit in limits:
        print(f"\n{limit.requests} in {limit.window_s:g} s: used and refused, in percent; * misses what is wanted")
        print(f"{'':42}{'wanted':>14}" + "".join(f"{way:>18}" for way in WAYS))
        for kind in HELD_OUT if chosen.held_out else KINDS:
            if chosen.only in kind.name:
                outcomes = [play(world) for world in kind.worlds(limit, seconds=chosen.minutes * 60, seed=chosen.seed)]
                missed += sum(not meets(outcome, wanted_of(kind, limit)) for outcome in outcomes)
                print(_row(kind, limit, outcomes), flush=True)
    print(f"\n{missed} missed")
    sys.exit(1 if missed else 0)


def wanted_of(kind: Kind, limit: Limit) -> Wanted:
    """Small limits are used less, since they need room for the round trips: that part is possible."""
    possible = 0.995 if limit.requests >= LIMITS[0].requests else 0.977
    return Wanted(kind.wanted.used * possible, kind.wanted.refused)


def meets(outcome: Outcome, wanted: Wanted) -> bool:
    """Whether enough was used, and little enough refused."""
    return outcome.used >= wanted.used and outcome.refused <= wanted.refused


def _limit(text: str) -> Limit:
    requests, _, seconds = text.partition("/")
    return Limit(int(requests), float(seconds))


def _row(kind: Kind, limit: Limit, outcomes: list[Outcome]) -> str:
    wanted = wanted_of(kind, limit)
    cells = "".join(f"{_cell(outcome):>16} {' ' if meets(outcome, wanted) else '*'}" for outcome in outcomes)
    return f"{kind.name:42}{_cell(Outcome(wanted.used, wanted.refused)):>14}{cells}"


def _cell(outcome: Outcome) -> str:
    return f"{outcome.used:.1%} {outcome.refused:.2%}".replace("%", "")


if __name__ == "__main__":
    main()
