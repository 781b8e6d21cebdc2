"""Plays worlds and checks them: `python -m tests.simulation --seeds 1000`.

Worlds are played beside one another, in as many processes as there are cores. For each that violates a promise, the
command that replays it with its trace is printed; the exit code is 1 then.
"""

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.guarantees import record
from tests.postgres.server import NAMED, server_url
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.seeds import Played, leave_server, played, story

SEEDS = 50

WORLDS_PER_PROCESS = 50
"""A crashed world stays in memory until its process ends (see `VirtualLoop.crash`)."""


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 when nothing was violated."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--scenario", choices=tuple(SCENARIOS), default="swarm")
    parser.add_argument("--seeds", type=int, help=f"how many worlds; {SEEDS} unless told, or the one of --seed")
    parser.add_argument("--seed", type=int, help="this world only, or the first one with --seeds")
    parser.add_argument("--trace", action="store_true", help="print what happened in the world of --seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        if (
            SCENARIOS[given.scenario](0).engines is not None and NAMED not in os.environ
        ):  # who plays worlds finds the server by it
            shared = stack.enter_context(tempfile.TemporaryDirectory())
            os.environ[NAMED] = stack.enter_context(server_url(Path(shared)))
            stack.callback(leave_server)
        return _main(given)


def _main(given: argparse.Namespace) -> int:
    if given.trace:
        print(story(given.scenario, given.seed or 0))
        return 0
    first = given.seed or 0
    number = given.seeds or (SEEDS if given.seed is None else 1)
    seeds = range(first, first + number)
    bad = _play(given.scenario, seeds, given.processes)
    if given.record:
        command = f"python -m tests.simulation --scenario {given.scenario} --seeds {len(seeds)}"
        record(f"worlds played, {given.scenario}", len(seeds), "", command)
        record(f"worlds with a violation, {given.scenario}", bad, "", command, at_most=0)
    return 1 if bad else 0


def _play(scenario: str, seeds: range, processes: int) -> int:
    """Plays them all; returns how many were bad."""
    started_s = time.perf_counter()
    bad, jobs, virtual_s, cpu_s = 0, 0, 0.0, 0.0
    for number, result in enumerate(_all(scenario, seeds, processes), 1):
        if number % WORLDS_PER_PROCESS == 0:
            print(f"{number:,} of {len(seeds):,} worlds", file=sys.stderr, flush=True)
        jobs, virtual_s, cpu_s = jobs + result.jobs, virtual_s + result.virtual_s, cpu_s + result.cpu_s
        if result.violations:
            bad += 1
            print("\n".join(result.lines()), flush=True)
    print(
        f"{scenario}: {len(seeds)} worlds, {jobs:,} jobs, {virtual_s / 3600:,.1f} h of virtual time, "
        f"{bad} with violations; {time.perf_counter() - started_s:.0f} s ({cpu_s:.0f} s CPU)"
    )
    return bad


def _all(scenario: str, seeds: range, processes: int) -> Iterator[Played]:
    if processes == 1 or len(seeds) == 1:
        yield from map(partial(played, scenario), seeds)
        return
    # Not concurrent.futures: with a limit of tasks to a process, its pool can wait for ever on Python 3.11.
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=WORLDS_PER_PROCESS) as pool:
        yield from pool.imap(partial(played, scenario), seeds)


if __name__ == "__main__":
    sys.exit(main())
