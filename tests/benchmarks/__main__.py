"""The speed and memory of the program, in figures.

python -m tests.benchmarks [NAME ...] [--json] [--record]
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from tests.benchmarks import (
    audit,
    batch_api,
    beside,
    chunks,
    commands,
    copies,
    dashboard,
    endpoints,
    files,
    large_on_server,
    machines,
    official,
    on_server,
    outputs,
    pipelines,
    pools,
    program,
    restart,
    runs,
    saves,
    selection,
    steering,
    steps,
    writers,
)
from tests.benchmarks.figures import Figure, table, this_machine
from tests.guarantees import record

COMMAND: Final = "python -m tests.benchmarks"
BENCHMARKS: Final[Mapping[str, Callable[[], list[Figure]]]] = {
    "webhook": runs.webhook,
    "polling": runs.polling,
    "official": official.official,
    "allowance": runs.allowance,
    "lanes": runs.lanes,
    "chunks": chunks.chunks,
    "batch-api": batch_api.batch_api,
    "endpoints": endpoints.endpoints,
    "pools": pools.pools,
    "intake": commands.intake,
    "beside": beside.beside,
    "restart": restart.restart,
    "ledger": steps.ledger,
    "server": on_server.server,
    "machines": machines.machines,
    "writers": writers.writers,
    "large-server": large_on_server.large_on_server,
    "copies": copies.copies,
    "failures": steps.failures,
    "verify": audit.verify,
    "outputs": outputs.outputs,
    "cut": outputs.cut,
    "saves": saves.saves,
    "files": files.files,
    "selection": selection.selection,
    "program": program.program,
    "steering": steering.steering,
    "pipelines": pipelines.pipelines,
    "dashboard": dashboard.dashboard,
}

SIZED: Final = frozenset(("large-server", "copies"))
"""Those that have as many jobs on a server as one says."""


def main() -> None:
    """Measures what was named, or everything, and prints the figures."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Speed and memory, in figures.")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"one of {', '.join(BENCHMARKS)}; default: all")
    parser.add_argument("--record", action="store_true", help="keep the figures in docs/figures/")
    parser.add_argument(
        "--outputs", metavar="N", type=int, default=outputs.JOBS, help="how many the benchmark outputs has"
    )
    parser.add_argument(
        "--server-jobs",
        metavar="N",
        type=int,
        default=large_on_server.JOBS,
        help=f"how many {' and '.join(sorted(SIZED))} have",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    if unknown := [name for name in chosen.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(BENCHMARKS)}")
    sized = {
        "outputs": partial(outputs.outputs, chosen.outputs),
        "large-server": partial(large_on_server.large_on_server, chosen.server_jobs),
        "copies": partial(copies.copies, chosen.server_jobs),
    }
    figures: list[Figure] = []
    for name in chosen.names or BENCHMARKS:
        print(f"{name} ...", file=sys.stderr)
        figures += sized.get(name, BENCHMARKS[name])()
    if chosen.record:
        for figure in figures:
            record(
                f"{figure.benchmark}: {figure.name}",
                figure.value,
                figure.unit,
                f"{COMMAND} {figure.benchmark}{_size(figure.benchmark, chosen)}",
                at_most=figure.at_most,
                at_least=figure.at_least,
            )
    machine = this_machine()
    if chosen.json:
        print(msgspec.json.encode({"machine": machine, "figures": figures}).decode())
    else:
        print(f"{machine}\n\n{table(figures)}")


def _size(benchmark: str, chosen: argparse.Namespace) -> str:
    """The option by which it was measured at another size than usual; nothing, where it was at that."""
    if benchmark == "outputs" and chosen.outputs != outputs.JOBS:
        return f" --outputs {chosen.outputs}"
    if benchmark in SIZED and chosen.server_jobs != large_on_server.JOBS:
        return f" --server-jobs {chosen.server_jobs}"
    return ""


if __name__ == "__main__":
    main()
