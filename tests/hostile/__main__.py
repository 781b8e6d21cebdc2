"""The listener under attack, with its figures.

python -m tests.hostile [--jobs N] [--slow N] [--floods N] [--record]

The same run three times: in quiet, attacked, and attacked with few open files allowed. 200 jobs a second.
"""

import argparse
import sys
from typing import Final

from tests.benchmarks.figures import Figure, table, this_machine
from tests.guarantees import record
from tests.hostile.measure import Found, measure

COMMAND: Final = "python -m tests.hostile"
PER_S: Final = 200
FEW_OPEN_FILES: Final = 256

QUIET_P99_MS_MAX: Final = 50.0
ATTACKED_P99_MS_MAX: Final = 1_000.0
PEAK_MB_MAX: Final = 600.0


def figures(name: str, found: Found, p99_ms_max: float) -> list[Figure]:
    """What one run showed."""

    def figure(what: str, value: float, unit: str, at_most: float | None = None) -> Figure:
        return Figure(benchmark=name, name=what, value=value, unit=unit, at_most=at_most)

    shown = [
        figure("webhook answered, median", found.seen.webhook_p50_ms or 0, "ms"),
        figure("webhook answered, p99", found.seen.webhook_p99_ms or 0, "ms", p99_ms_max),
        figure("webhook answered, worst", found.seen.webhook_max_ms or 0, "ms"),
        figure("webhooks that had to be repeated", found.seen.webhooks_repeated, ""),
        figure("jobs changed by strangers", found.changed, "jobs", 0),
        figure("peak memory", found.ended.peak_mb, "MB", PEAK_MB_MAX),
    ]
    if (tally := found.tally) is not None:
        shown += [
            figure("strangers' requests", tally.requests / tally.seconds, "a second"),
            figure("answers that were not in order", len(tally.unexpected), "", 0),
            figure("slow connections opened", tally.slow_opened, ""),
            figure("slow connections at once", tally.slow_most, ""),
            figure("most taken of a gigabyte", tally.gigabyte_bytes_most / 1e6, "MB"),
        ]
    return shown


def main() -> None:
    """Measures, and prints the figures."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="The listener under attack, with its figures.")
    parser.add_argument("--jobs", type=int, default=4_000, help="jobs of each run, 200 a second (default: 4000)")
    parser.add_argument("--slow", type=int, default=10_000, help="slow connections (default: 10000)")
    parser.add_argument("--floods", type=int, default=2, help="senders of each kind of request (default: 2)")
    parser.add_argument("--record", action="store_true", help="keep the figures in docs/figures/")
    chosen = parser.parse_args()
    shown: list[Figure] = []
    for name, slow, floods, open_files in (
        ("quiet", 0, 0, None),
        ("attacked", chosen.slow, chosen.floods, None),
        (f"attacked, {FEW_OPEN_FILES} open files", chosen.slow, chosen.floods, FEW_OPEN_FILES),
    ):
        print(f"{name} ...", file=sys.stderr)
        found = measure(chosen.jobs, per_s=PER_S, slow=slow, floods=floods, open_files=open_files)
        if found.tally is not None:
            for attack, answers in found.tally.answers.items():
                print(f"  {attack}: {answers}", file=sys.stderr)
            for line in found.tally.unexpected[:10]:
                print(f"  unexpected: {line}", file=sys.stderr)
        shown += figures(name, found, QUIET_P99_MS_MAX if name == "quiet" else ATTACKED_P99_MS_MAX)
    print(f"{this_machine()}\n\n{table(shown)}")
    if chosen.record:
        for figure in shown:
            record(f"{figure.benchmark}: {figure.name}", figure.value, figure.unit, COMMAND, at_most=figure.at_most)


if __name__ == "__main__":
    main()
