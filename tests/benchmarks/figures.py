"""What a benchmark finds: figures, each with the bound that it is measured against where there is one."""

import math
import os
import platform
import sqlite3
from collections.abc import Sequence
from importlib.util import find_spec

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number. `at_most` and `at_least` are what is promised; neither: only told."""

    benchmark: str
    name: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_kept(self) -> bool | None:
        """Whether the promise is kept; None where nothing is promised."""
        if self.at_most is None and self.at_least is None:
            return None
        return not (
            (self.at_most is not None and self.value > self.at_most)
            or (self.at_least is not None and self.value < self.at_least)
        )

    @property
    def promise(self) -> str:
        """The bound as people read it, "" where there is none."""
        if self.at_most is not None:
            return f"<= {number(self.at_most)} {self.unit}"
        if self.at_least is not None:
            return f">= {number(self.at_least)} {self.unit}"
        return ""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the figures were measured on."""

    cores: int
    system: str
    python: str
    sqlite: str
    loop: str

    def __str__(self) -> str:
        return f"{self.cores} cores, {self.system}, {self.python}, SQLite {self.sqlite}, {self.loop}"


def this_machine() -> Machine:
    """The machine that we run on."""
    return Machine(
        cores=os.cpu_count() or 1,
        system=f"{platform.system()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sqlite=sqlite3.sqlite_version,
        loop="uvloop" if find_spec("uvloop") else "asyncio",
    )


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that `share` (0-1) of them do not exceed; NaN where there are none."""
    if not values:
        return math.nan
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def number(value: float) -> str:
    """Three significant digits, and thousands apart: "0.742", "99.6", "41,300"."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    decimals = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{decimals}f}"


def table(figures: Sequence[Figure]) -> str:
    """The figures in aligned columns."""
    verdicts = {None: "", True: "kept", False: "MISSED"}
    rows = [
        (figure.benchmark, figure.name, number(figure.value), figure.unit, figure.promise, verdicts[figure.is_kept])
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(6)]
    return "\n".join(
        f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}} {row[3]:<{widths[3]}}"
        f"  {row[4]:<{widths[4]}}  {row[5]}".rstrip()
        for row in rows
    )
