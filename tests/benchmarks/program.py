"""A million inputs from a generator, through `Orchestrator.submit`: how fast, and in how much memory."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import ROOT, stand_in
from tests.benchmarks.stand_in import Behaviour

ROWS: Final = 1_000_000
ROWS_PER_S_MIN: Final = 20_000
PEAK_MB_MAX: Final = 250
SECONDS_MAX: Final = 600.0

SCRIPT: Final = """
import asyncio, json, resource, sys, time
from pathlib import Path
from orchestrator import Orchestrator

def peak_mb():
    status = Path("/proc/self/status")  # what the kernel else tells begins with the peak of whoever started this program
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6

async def main(url, rows):
    async with Orchestrator("ledger.db", serverless_url=url, api_key="any") as orc:
        inputs = ({"prompt": f"a lighthouse in fog, {n}", "steps": 30} for n in range(rows))
        began = time.monotonic()
        run = await orc.submit(inputs, endpoint="ep", name="many")
        took_s = time.monotonic() - began
        print(json.dumps([run.counts["total"], took_s, peak_mb()]))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def program(rows: int = ROWS) -> list[Figure]:
    """The service refuses at the first request, so that reading is all that is measured."""
    with TemporaryDirectory() as name, stand_in(Behaviour(status=401)) as service:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, service.url, str(rows)],
            cwd=Path(name), env={"PYTHONPATH": str(ROOT)}, capture_output=True, timeout=SECONDS_MAX, check=True,
        )  # fmt: skip
    total, took_s, peak_mb = json.loads(done.stdout)
    assert total == rows
    return [
        Figure(
            benchmark="program", name="taken in from a generator", value=rows / took_s, unit="rows/s",
            at_least=ROWS_PER_S_MIN,
        ),
        Figure(benchmark="program", name="peak memory", value=peak_mb, unit="MB", at_most=PEAK_MB_MAX),
    ]  # fmt: skip
