"""The same jobs by the program and by a careful script on the official SDK, one after the other, at the same server.

A job takes 2.5 s there. Most take longer, and the longer they take, the more often the script asks: it has no idea when
a job will have finished, and takes no webhooks. Of jobs that take 0.2 s it asks once, which is the least that it can do.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.benchmarks.figures import Figure
from tests.benchmarks.processes import StandIn, Verdict, measured, stand_in
from tests.benchmarks.runs import JOBS, SECONDS_MAX, UNLIMITED, run_at, seconds_at_work, write_input
from tests.benchmarks.stand_in import Behaviour

EXECUTION_S: Final = 2.5
SHORT_S: Final = 0.2
IN_FLIGHT: Final = 1_000
"""Jobs of the script in flight: five times what the contract lets be submitted at once."""

FASTER_MIN: Final = 1.5
CPU_SHARE_MAX: Final = 0.9
"""Of what the script takes."""

POLLING_SHARE_MAX: Final = 1.0
"""Of what we take ourselves without webhooks."""


def official(jobs: int = JOBS) -> list[Figure]:
    """For jobs of either length; see `compared`."""
    return [*compared(jobs, EXECUTION_S), *compared(jobs, SHORT_S, f", jobs of {SHORT_S} s")]


def compared(jobs: int, execution_s: float, of_which: str = "") -> list[Figure]:
    """Jobs a second and CPU of the script and of the program, and what the one is to the other."""
    with stand_in(Behaviour(webhooks=True, execution_s=execution_s)) as service:
        script_s, script = _by_script(service, jobs)
        webhook_s, webhook = _by_us(service, jobs, "--listen", "127.0.0.1:0")
        polling_s, polling = _by_us(service, jobs)

    def figure(
        name: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None
    ) -> Figure:
        name = f"{name}{of_which}"
        return Figure(benchmark="official", name=name, value=value, unit=unit, at_most=at_most, at_least=at_least)

    return [
        figure("script on the official SDK", jobs / script_s, "jobs/s"),
        figure("script on the official SDK, CPU per job", 1000 * script.cpu_s / jobs, "ms"),
        figure("by webhook", jobs / webhook_s, "jobs/s"),
        figure("by webhook, CPU per job", 1000 * webhook.cpu_s / jobs, "ms"),
        figure("by polling", jobs / polling_s, "jobs/s"),
        figure("by polling, CPU per job", 1000 * polling.cpu_s / jobs, "ms"),
        figure("by webhook, as fast as the script", script_s / webhook_s, "times", at_least=FASTER_MIN),
        figure("by webhook, CPU of the script's", webhook.cpu_s / script.cpu_s, "times", at_most=CPU_SHARE_MAX),
        figure("by webhook, CPU of polling's", webhook.cpu_s / polling.cpu_s, "times", at_most=POLLING_SHARE_MAX),
    ]


def _by_script(service: StandIn, jobs: int) -> tuple[float, Verdict]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_input(folder / "input.jsonl", jobs)
        ended = measured(
            [sys.executable, "-m", "tests.benchmarks.official_script", "input.jsonl", "results.jsonl", str(IN_FLIGHT)],
            folder=folder,
            seconds_max=SECONDS_MAX,
            environment={"RUNPOD_ENDPOINT_BASE_URL": f"{service.url}/v2"},
        )
        assert ended.exit_code == 0, ended.stderr
        with (folder / "results.jsonl").open("rb") as results:
            assert sum(1 for _ in results) == jobs
        return float(ended.stdout), ended


def _by_us(service: StandIn, jobs: int, *flags: str) -> tuple[float, Verdict]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        ended = run_at(service.url, folder, jobs, *UNLIMITED, *flags)
        return seconds_at_work(folder / "ledger.db"), ended
