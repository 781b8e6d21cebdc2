"""Tables on standard output. What the service says cannot move the cursor of the user's terminal."""

import re
import sys
from collections.abc import Callable, Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final, TypeVar

from orchestrator.cli import printing

if TYPE_CHECKING:
    from rich.console import RenderableType  # Rich is slow to import, and `--json` needs none of it
    from rich.table import Table

T = TypeVar("T")

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def put_list(
    records: Sequence[T],
    *,
    as_json: bool,
    none: str,
    headings: Sequence[str],
    row: Callable[[T], Iterable[object]],
    raw: Callable[[T], object] = lambda record: record,
) -> None:
    """Records as a table, or as a JSON array of what `raw` makes of each; `none` is said where there are none."""
    if as_json:
        printing.put_json([raw(record) for record in records])
    elif records:
        put(columns(headings, map(row, records)))
    else:
        printing.say(none)


def columns(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> "Table":
    """One row for each record."""
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    return table


def lines(rows: Iterable[tuple[str, str]]) -> "Table":
    """One line for each thing that there is to say: its name and its value, whose line breaks stay."""
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(harmless(name)), Text(harmless(value)))
    return grid


def drawn(*parts: "RenderableType", width: int | None = None, colours: bool | None = None) -> str:
    """The parts below each other; `width` and `colours`: None for the terminal's."""
    from rich.console import Console  # noqa: PLC0415

    can_draw = printing.can_draw(sys.stdout) if colours is None else colours
    out = StringIO()
    console = Console(
        file=out, width=width, force_terminal=can_draw, color_system="auto" if can_draw else None, highlight=False
    )
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def put(*parts: "RenderableType") -> None:
    """The parts on standard output."""
    printing.put(drawn(*parts).encode(sys.stdout.encoding or "utf-8", "replace"))
    printing.flush()


def plain(cell: object) -> str:
    """A name or a number as the text of one cell; nothing in it can be meant to be invisible."""
    text = "" if cell is None else str(cell)
    return "".join(c if c.isprintable() else " " for c in text)


def harmless(text: str) -> str:
    """A worker's text as it is, but for what a terminal would obey."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)
