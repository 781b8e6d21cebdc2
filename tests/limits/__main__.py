"""How much of the limits is used, and that no request is refused, by real processes.

python -m tests.limits [--windows 10] [--window-s 10] [--together 2] [--record]

The real client sends `/run` and `/status` at full speed to a server process that counts in five ways, at three
distances: fifteen cases of ten windows each, a quarter of an hour with two cases at a time. Then the small limits, those
of the contract and others, all at once and at the largest distance, for as long as one of those cases. A busy machine is late with
everything, and what is late by more than 15 ms is lost: take fewer together, or give it priority, as in
`chrt -f 5 python -m tests.limits`. The percentages are of the limits that the client was given, here the contract's;
a batch is given 95 % of `/status`, for people have the rest.
"""

import argparse
import sys
from typing import Final

from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.emulator.contract.rate_counters import Algorithm
from tests.guarantees.recording import record
from tests.limits.promise import ROUND_TRIPS, SMALL, WINDOWS, RoundTrips, Small
from tests.limits.real import Case, Use, measure, measure_together

MEASURED: Final = (Operation.RUN, Operation.STATUS)
HEAD: Final = (
    f"{'round trips':13}{'server counts by':20}{'operation':11}{'used':>8}{'promised':>10}{'429s':>6}{'fullest':>9}"
)


def main() -> None:
    """Measures, prints the table, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.limits", description="The limits, measured.")
    parser.add_argument("--windows", type=int, default=WINDOWS, help="how many windows (default: %(default)s)")
    parser.add_argument("--window-s", type=float, default=10.0, help="scales the contract's limits (default: 10)")
    parser.add_argument("--together", type=int, default=2, help="so many servers at once (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    limits = {operation: _scaled(CONTRACT_LIMITS[operation], chosen.window_s) for operation in MEASURED}
    print(HEAD)
    kept = True
    for trips in ROUND_TRIPS:
        uses = [
            use
            for first in range(0, len(Algorithm), chosen.together)
            for use in measure(
                trips, limits, windows=chosen.windows, algorithms=list(Algorithm)[first : first + chosen.together]
            )
        ]
        for use in uses:
            print(_line(trips, f"/{use.operation}", use, trips.use_percent_min), flush=True)
        kept &= all(use.refused == 0 and use.percent >= trips.use_percent_min for use in uses)
        if chosen.record:
            _record(trips, uses, f"python -m tests.limits --windows {chosen.windows}")
    kept &= _measure_small(chosen.windows * chosen.window_s, chosen.window_s / 10, keep=chosen.record)
    sys.exit(0 if kept else 1)


def _scaled(limit: Limit, window_s: float) -> Limit:
    return Limit(round(limit.requests * window_s / limit.window_s), window_s, limit.concurrent)


def _measure_small(seconds: float, scale: float, *, keep: bool) -> bool:
    """All small limits side by side: they are no work. Whether what is promised of them is kept."""
    trips = ROUND_TRIPS[0]
    cases = [Case(trips=trips, limits={Operation.STATUS: _slower(small.limit, scale)}) for small in SMALL]
    kept = True
    for small, uses in zip(SMALL, measure_together(cases, seconds=seconds), strict=True):
        for use in uses:
            print(_line(trips, str(small), use, small.use_percent_min), flush=True)
        kept &= all(use.refused == 0 and use.percent >= small.use_percent_min for use in uses)
        if keep:
            _record_small(small, trips, uses)
    return kept


def _slower(limit: Limit, scale: float) -> Limit:
    return Limit(limit.requests, limit.window_s * scale, limit.concurrent)


def _line(trips: RoundTrips, what: str, use: Use, promised: float) -> str:
    return (
        f"{trips!s:13}{use.algorithm:20}{what:11}{use.percent:6.2f} %{promised:8.1f} %{use.refused:6}{use.window_max:9}"
    )


def _record_small(small: Small, trips: RoundTrips, uses: list[Use]) -> None:
    least, refused = min(use.percent for use in uses), sum(use.refused for use in uses)
    what = f"{small} seconds, round trips of {trips}, worst of five ways to count"
    record(f"allowance used, {what}", least, "%", "python -m tests.limits", at_least=small.use_percent_min)
    record(f"answered 429, {what}", refused, "requests", "python -m tests.limits", at_most=0)


def _record(trips: RoundTrips, uses: list[Use], command: str) -> None:
    for operation in MEASURED:
        of_operation = [use for use in uses if use.operation == operation]
        least, refused = min(use.percent for use in of_operation), sum(use.refused for use in of_operation)
        what = f"/{operation}, round trips of {trips}, worst of five ways to count"
        record(f"allowance used, {what}", least, "%", command, at_least=trips.use_percent_min)
        record(f"answered 429, {what}", refused, "requests", command, at_most=0)


if __name__ == "__main__":
    main()
