"""Whether a report can overtake its job's result under the unmodified official worker, with the helper for images.

python -m tests.emulator.long_jobs [--jobs 1000] [--record]

Each job reports three times and ends at once. For comparison as many, up to a hundred, do so without the helper.
"""

import argparse
import sys

import anyio

from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.serving import serve
from tests.emulator.served import ServedClient, talking_to
from tests.emulator.workers.test_official_worker import PATIENT, PROGRAM
from tests.guarantees import record

WORKERS = 2
AT_ONCE = 64
HASTY_MAX = 100
SETTLE_S = 5.0
"""After the last result: what is late is there by then."""


async def late_updates(jobs: int, endpoint: str) -> int:
    """How many reports of so many jobs came after the results of these."""
    scaling = Scaling(workers_min=WORKERS, workers_max=WORKERS, idle_timeout_s=3_600)
    command = (sys.executable, str(PROGRAM))
    async with serve(command=command, scaling=scaling, **PATIENT) as service, talking_to(service) as client:
        turns = anyio.CapacityLimiter(AT_ONCE)
        async with anyio.create_task_group() as tasks:
            for n in range(jobs):
                tasks.start_soon(_job, client, endpoint, n, turns)
        await anyio.sleep(SETTLE_S)
        return service.emulator.world.executions.late_progress[endpoint]


async def _job(client: ServedClient, endpoint: str, n: int, turns: anyio.CapacityLimiter) -> None:
    async with turns:
        ended = await client.end_of(endpoint, await client.submit(endpoint, {"n": n}))
    if ended["status"] != "COMPLETED":
        raise SystemExit(f"job {n} ended with {ended}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--record", action="store_true", help="keep the figure in docs/figures/")
    chosen = parser.parse_args()
    hasty = min(chosen.jobs, HASTY_MAX)
    print(f"without the helper: {anyio.run(late_updates, hasty, 'hasty')} late reports of {hasty} jobs", flush=True)
    late = anyio.run(late_updates, chosen.jobs, "long")
    print(f"with it: {late} late reports of {chosen.jobs:,} jobs", flush=True)
    if chosen.record:
        what = f"reports after the result of their job, of {chosen.jobs:,} jobs under the official worker"
        record(what, late, "reports", "python -m tests.emulator.long_jobs", at_most=0)
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
