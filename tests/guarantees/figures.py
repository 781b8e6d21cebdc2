"""The figures that the measuring commands leave in docs/figures/, one file for each command's module.

`tests.limits` writes docs/figures/limits.json, and so on; a figure that is measured again replaces the one of its name.
"""

import re
from pathlib import Path
from typing import Final

import msgspec

from tests.benchmarks.figures import Figure, number

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "docs" / "figures"

_MODULE: Final = re.compile(r"python -m tests\.([a-z_.]+)(?: |$)")


class Recorded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure as it was measured. `at_most` and `at_least` are what is promised; neither: only told."""

    name: str
    value: float
    unit: str
    command: str
    date: str
    machine: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def measured(self) -> Figure:
        """The figure with its bounds, as the benchmarks know it."""
        return Figure(
            benchmark="", name=self.name, value=self.value, unit=self.unit, at_most=self.at_most, at_least=self.at_least
        )

    @property
    def row(self) -> str:
        """A row of the page's tables."""
        verdict = {None: "", True: self.measured.promise, False: f"**missed**: {self.measured.promise}"}
        cells = (
            self.name,
            f"{number(self.value)} {self.unit}".rstrip(),
            verdict[self.measured.is_kept],
            f"`{self.command}`",
            self.date,
        )
        return f"| {' | '.join(cells)} |"


def file_of(command: str, folder: Path = FOLDER) -> Path:
    """Where the figures of `command` (`python -m tests.…`) stand. Raises ValueError for another kind of command."""
    match = _MODULE.match(command)
    if match is None:
        raise ValueError(f"{command!r} is no command of the kind 'python -m tests.…'")
    return folder / f"{match[1]}.json"


def read(path: Path) -> dict[str, Recorded]:
    """The figures in `path` by name; none where there is no such file."""
    if not path.exists():
        return {}
    return {figure.name: figure for figure in msgspec.json.decode(path.read_bytes(), type=list[Recorded])}


def write(path: Path, figures: dict[str, Recorded]) -> None:
    """Replaces what stands in `path`, a figure to a line."""
    lines = ",\n".join(msgspec.json.encode(figure).decode() for figure in figures.values())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[\n{lines}\n]\n")


def recorded(folder: Path = FOLDER) -> dict[str, list[Recorded]]:
    """Every figure there is, by the module of its command without `tests.`."""
    return {path.stem: list(read(path).values()) for path in sorted(folder.glob("*.json"))}
