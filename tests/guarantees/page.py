"""docs/why/guarantees.md, written from the promises and the figures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import TextWrapper
from typing import Final

from tests.guarantees.changes import CHANGES, SINCE
from tests.guarantees.figures import ROOT, Recorded, recorded
from tests.guarantees.promise import Promise
from tests.guarantees.promises import PROMISES

PATH: Final = ROOT / "docs" / "why" / "guarantees.md"

_HEAD: Final = """\
# Guarantees

<!-- written by `python -m tests.guarantees`; the suite compares -->

For those who want to know what they can rely on.

What the program promises, what each promise rests on, what breaks it, the tests that show it, and the figures that were
measured last. [How it works](how-it-works.md) explains the words. The figures are of one machine; each command measures
them on yours.
"""

_WRAPPED: Final = TextWrapper(width=120, break_long_words=False, break_on_hyphens=False)
_WRAPPED_ITEM: Final = TextWrapper(width=120, break_long_words=False, break_on_hyphens=False, subsequent_indent="  ")

_TABLE: Final = ("| figure | measured | promised | by | on |", "|---|---|---|---|---|")


def text(figures: Mapping[str, Sequence[Recorded]]) -> str:
    """The whole page. Figures that belong to no promise come last, so that none is left out."""
    sections = [_HEAD]
    left = {module: list(found) for module, found in figures.items()}
    for promise in PROMISES:
        shown = [figure for module, found in left.items() for figure in found if promise.is_about(module, figure.name)]
        left = {module: [figure for figure in found if figure not in shown] for module, found in left.items()}
        sections.append(_section(promise, shown))
    rest = [figure for found in left.values() for figure in found]
    if rest:
        sections.append("\n".join(["## Further figures", "", *_table(rest)]) + "\n")
    machines = sorted({figure.machine for found in figures.values() for figure in found})
    if machines:
        sections.append("\n".join(["## Measured on", "", *(f"- {machine}" for machine in machines)]) + "\n")
    return "\n".join(sections)


def _section(promise: Promise, shown: Sequence[Recorded]) -> str:
    lines = [f"## {promise.number}: {promise.title}", "", _WRAPPED.fill(promise.text), ""]
    lines += ["It rests on:", "", *map(_item, promise.assumptions), ""]
    lines += ["What breaks it:", "", *map(_item, promise.breaks), ""]
    if changed := CHANGES[promise.number]:
        lines += [f"What changed since {SINCE}:", "", *map(_item, changed), ""]
    lines += ["Shown by:", "", *(_test(test) for test in promise.tests)]
    if shown:
        lines += ["", *_table(shown)]
    return "\n".join(lines) + "\n"


def _item(line: str) -> str:
    return _WRAPPED_ITEM.fill(f"- {line}")


def _test(test: str) -> str:
    path, _, name = test.partition("::")
    return f"- [{name.removeprefix('test_').replace('_', ' ')}](../../{path})"


def _table(figures: Sequence[Recorded]) -> list[str]:
    return [*_TABLE, *(figure.row for figure in figures)]


def write(path: Path = PATH) -> None:
    """Writes the page from what is recorded."""
    path.write_text(text(recorded()))
