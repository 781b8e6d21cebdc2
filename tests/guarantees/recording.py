"""How a measuring command leaves its figures: `record(name, value, unit, command)`."""

from datetime import UTC, datetime
from pathlib import Path

from orchestrator.clock import SystemClock
from tests.benchmarks.figures import this_machine
from tests.guarantees import figures, page


def record(
    name: str,
    value: float,
    unit: str,
    command: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    folder: Path = figures.FOLDER,
) -> None:
    """Keeps a figure in docs/figures/ and brings docs/why/guarantees.md up to date.

    `name` says what was measured and is unique among the figures of the command's module. `command` is what repeats the
    measurement, `python -m tests.… [ARGUMENTS]`. `at_most` or `at_least` is what is promised.
    """
    path = figures.file_of(command, folder)
    found = figures.read(path)
    found[name] = figures.Recorded(
        name=name,
        value=float(f"{value:.6g}"),
        unit=unit,
        command=command,
        date=datetime.fromtimestamp(SystemClock().now() / 1e6, UTC).date().isoformat(),
        machine=str(this_machine()),
        at_most=at_most,
        at_least=at_least,
    )
    figures.write(path, found)
    if folder == figures.FOLDER:
        page.write()
