"""Has everything happen to processes that serve one ledger on a server which can, and sees whether all promises are kept.

python -m tests.failover [--times 1] [--faults N --seed 1 [--worlds 2]] [--record] [FAULT ...]

Each fault once, in order, if none is named; or N that are drawn by a seed, of which each is one if they are enough.
Real processes: two that share a ledger, and people's commands beside them, on a server of their own. There is always
something to send at two endpoints. Exits with 1 where a request came of a process whose successor had sent there, where
nothing was sent at an endpoint for more than ten seconds (of a fault that spares nobody: than it lasts and ten more),
where a limit was passed, where a job has not exactly one result, or where more was paid twice than was uncertain.
"""

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import anyio

from tests.failover.campaign import Campaign, Ended
from tests.failover.database import Database
from tests.failover.fault import HANDED_OVER_S_MAX, SILENCE_S_MAX
from tests.failover.faults import FAULTS
from tests.failover.machine import away
from tests.failover.world import world
from tests.guarantees.recording import record
from tests.postgres.server import server_url
from tests.system.processes import Desk, Service

HEAD: Final = f"{'fault':>20}{'silence':>9}   befell  owners of each endpoint"


def main() -> None:
    """Goes through the faults, prints a line for each, and exits with 1 where a promise is not kept."""
    parser = argparse.ArgumentParser(prog="python -m tests.failover", description="Owners of a ledger, lost.")
    parser.add_argument("named", nargs="*", metavar="FAULT", help=f"of {', '.join(FAULTS)} (default: each once)")
    parser.add_argument("--times", type=int, default=1, help="how often each (default: %(default)s)")
    parser.add_argument("--faults", type=int, help="draw so many")
    parser.add_argument("--seed", type=int, default=1, help="by which they are drawn (default: %(default)s)")
    parser.add_argument("--worlds", type=int, default=1, help="share them out among so many (default: %(default)s)")
    parser.add_argument("--record", action="store_true", help="keep the figures for docs/why/guarantees.md")
    chosen = parser.parse_args()
    names = chosen.times * (chosen.named or list(FAULTS))
    command = f"python -m tests.failover --times {chosen.times}"
    if chosen.faults is not None:
        names = drawn(chosen.faults, chosen.seed)
        command = f"python -m tests.failover --faults {chosen.faults} --seed {chosen.seed}"
    print(HEAD, flush=True)
    ends = anyio.run(_all, [names[place :: chosen.worlds] for place in range(chosen.worlds)])
    silences = [met.silence_s for end in ends for met in end.met if met.is_loss]
    if silences:
        print(f"silence: median {median(silences):.1f} s, at most {max(silences):.1f} s, {len(silences)} times")
    for end in ends:
        print(
            f"{end.jobs:,} jobs, {end.results:,} results, {end.accepted:,} accepted, {end.uncertain} were uncertain,"
            f" {end.waiting} are; {end.late} late, {end.crowded} in one window at the most"
        )
    wrong = [what for end in ends for what in end.wrong()]
    print("\n".join(wrong) or "nothing is wrong")
    if chosen.record:
        _record(ends, command)
    sys.exit(1 if wrong else 0)


def drawn(faults: int, seed: int) -> list[str]:
    """The names of so many, in any order: each of them, and the others by chance; by chance alone, where they are few."""
    chance, kinds = random.Random(seed), list(FAULTS)
    certain = kinds if faults >= len(kinds) else []
    names = certain + chance.choices(kinds, [fault.weight for fault in FAULTS.values()], k=faults - len(certain))
    chance.shuffle(names)
    return names


async def _all(shares: Sequence[Sequence[str]]) -> list[Ended]:
    ends = list[Ended]()
    async with anyio.create_task_group() as tasks:
        for share in shares:
            tasks.start_soon(_one, share, ends)
    return ends


async def _one(names: Sequence[str], ends: list[Ended]) -> None:
    service = Service()
    try:
        with tempfile.TemporaryDirectory() as folder, server_url(Path(folder), is_durable=True) as url:
            database = Database(url)
            await database.make()
            async with world(Desk(Path(folder)), service, database) as there:
                campaign = Campaign(there)
                await there.begin()
                for name in names:
                    met = await campaign.meet(name)
                    told = f"{name:>20}{met.silence_s:8.1f}s   {met.befell:<8}{met.owners}"
                    print("\n".join((told, *(f"{'':29}   {what}" for what in met.wrong))), flush=True)
                    if met.wrong:
                        print("\n".join(f"the {machine}:\n{said}" for machine, said in met.said.items()), flush=True)
                ends.append(await campaign.end())
    finally:
        await away(service.stop)


def _record(ends: Sequence[Ended], command: str) -> None:
    met = [each for end in ends for each in end.met]
    losses = [each.silence_s for each in met if each.is_loss]
    asked = [each.silence_s for each in met if each.name == "asked"]
    record("faults under load", len(met), "times", command)
    if losses:
        record(
            "longest time without a request after an owner was gone", max(losses), "s", command, at_most=SILENCE_S_MAX
        )
        record("the same, the median", median(losses), "s", command, at_most=8.0)
    if asked:
        record("the same where it was asked to stop", max(asked), "s", command, at_most=HANDED_OVER_S_MAX)
    late = sum(end.late for end in ends)
    record("requests of an owner after its successor's first", late, "requests", command, at_most=0)
    twice, most = sum(end.twice for end in ends), sum(end.uncertain + end.repeated_max for end in ends)
    record("jobs paid twice by faults", twice, f"of {sum(end.jobs for end in ends):,}", command, at_most=most)


if __name__ == "__main__":
    main()
