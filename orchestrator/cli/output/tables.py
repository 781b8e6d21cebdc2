"""Tables on standard output, as wide as the terminal, or in a pipe as they need to be. What the service says cannot
move the cursor of the user's terminal.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeVar

from orchestrator.cli.output import streams
from orchestrator.core.text.wording import shortened, visible

if TYPE_CHECKING:
    from rich.console import RenderableType  # Rich is slow to import, and `--json` needs none of it
    from rich.table import Table

T = TypeVar("T")

NAME_CELLS: Final = 30
"""So much of a name stands on one line wherever the screen has room for it."""

COPIED: Final = frozenset(("FLOW", "RUN"))
"""The columns whose names people copy: they stand on one line, and the others have what is left."""

REMARK_CELLS: Final = 40
"""So much of a remark is worth more than a figure beside it."""

GAP: Final = 2
"""Between two columns of a table of names."""

UNBROKEN: Final = 10_000
"""So many columns has what is no terminal, unless `COLUMNS` says otherwise: names can be found there, and pasted."""

_BETWEEN_WORDS: Final = re.compile(r"[-_./: ]+")
_INDENT: Final = re.compile(r" *(?:\d+\. +)?")


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
        streams.put_json([raw(record) for record in records])
    elif records:
        put_parts(columns(headings, map(row, records)))
    else:
        streams.say(none)


def columns(headings: Sequence[str], rows: Iterable[Iterable[object]]) -> "Table":
    """One row for each record; numbers stand below each other."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    records = [tuple(row) for row in rows]
    for place, heading in enumerate(headings):
        is_number = bool(records) and all(isinstance(record[place], int) for record in records)
        whole = max((len(plain(record[place])) for record in records), default=0) if heading in COPIED else None
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(heading, overflow="fold", justify=justify, no_wrap=whole is not None, min_width=whole)
    for record in records:
        table.add_row(*(Text(plain(cell)) for cell in record))
    return table


class Figures(NamedTuple):
    """A column of a table of names."""

    heading: str
    cells: Sequence[str]
    styles: Sequence[str] = ()
    """One for each cell; none where it is empty."""

    is_right: bool = True
    can_go: int = 0
    """The higher, the sooner the column is left out where there is no room for all; 0: never."""


def of_names(
    heading: str,
    names: Sequence[str],
    figures: Sequence[Figures],
    *,
    remarks: Figures | None = None,
    width: int | None = None,
) -> "Table":
    """Names, and figures beside each, in at most `width` columns (None: the terminal's).

    Where that is too narrow, figures go before a name is broken; and it is broken between its words, where it has any.
    `remarks` come last, each shortened to the room that is left for it: figures go before that is too little.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    names = [plain(name) for name in names]
    figures = [each._replace(cells=[plain(cell) for cell in each.cells]) for each in figures]
    width = screen_width() if width is None else width
    said = [] if remarks is None else [plain(remark) for remark in remarks.cells]
    wanted = min(max(map(cell_len, said), default=0), REMARK_CELLS, width // 2) + GAP if any(said) else 0
    width -= wanted
    longest = max(map(cell_len, (heading, *names)))
    widths = {each.heading: max(map(cell_len, (each.heading, *each.cells))) for each in figures}
    shown = list(figures)
    while _room(width, shown, widths) < min(longest, NAME_CELLS) and any(each.can_go for each in shown):
        shown.remove(max(shown, key=lambda each: each.can_go))
    room = max(1, min(longest, _room(width, shown, widths)))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    table.add_column(heading, width=room, no_wrap=True)
    for each in shown:
        table.add_column(each.heading, justify="right" if each.is_right else "left", no_wrap=True)
    left = _room(width, shown, widths) - room + wanted - GAP
    if remarks is not None and any(said):
        table.add_column(remarks.heading, no_wrap=True)
    for place, name in enumerate(names):
        cells = [Text(each.cells[place], style=each.styles[place] if each.styles else "") for each in shown]
        if any(said):
            cells.append(Text(shortened(said[place], max(1, left))))
        table.add_row(Text("\n".join(folded(name, room)), style="bold"), *cells)
    return table


def _room(width: int, shown: Sequence[Figures], widths: Mapping[str, int]) -> int:
    """How wide names can be beside these columns."""
    return width - sum(widths[each.heading] + GAP for each in shown)


def folded(name: str, width: int) -> Iterator[str]:
    """`name` on lines of at most `width`, broken after a dash, a dot or the like, where it has one in time."""
    from rich.cells import cell_len

    rest = name
    while cell_len(rest) > width:
        fits = next((rest[:n] for n in range(width, 1, -1) if cell_len(rest[:n]) <= width), rest[:1])
        end = max((found.end() for found in _BETWEEN_WORDS.finditer(fits)), default=len(fits))
        yield rest[:end].rstrip()
        rest = rest[end:]
    yield rest


def screen_width() -> int:
    """How many columns the terminal has, as far as somebody says."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return UNBROKEN
    from rich.console import Console

    return Console(file=StringIO()).width


def put_lines(lines: Sequence[str], *, has_heading: bool = False) -> None:
    """On a terminal no word is broken; in a pipe, no line is, so that commands can be found and pasted."""
    lines = [harmless(streams.named(line)) for line in lines]
    is_seen = sys.stdout.isatty()
    text = on_screen(lines, has_heading=has_heading) if is_seen else "".join(f"{line}\n" for line in lines)
    streams.put_text(text)


def on_screen(
    lines: Sequence[str], *, has_heading: bool = False, width: int | None = None, colours: bool | None = None
) -> str:
    """The lines, broken between words below their beginnings, the first one emphasised where it is a heading; None for
    the terminal's.
    """
    parts = (_hanging(line, style="bold" if has_heading and not at else "") for at, line in enumerate(lines))
    return drawn(*parts, width=width, colours=colours)


def _hanging(line: str, *, style: str) -> "RenderableType":
    """A line that goes on below its first word, behind what it is indented by, or its number."""
    from rich.table import Table
    from rich.text import Text

    begin = _INDENT.match(line)
    if begin is None or not begin[0]:
        return Text(line, style=style)
    grid = Table.grid()
    grid.add_column(width=begin.end(), no_wrap=True)
    grid.add_column(overflow="fold", style=style)
    grid.add_row(Text(begin[0]), Text(line[begin.end() :]))
    return grid


def lines(rows: Iterable[tuple[str, str]]) -> "Table":
    """One line for each thing that there is to say: its name and its value, whose line breaks stay."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(harmless(name)), Text(harmless(streams.named(value))))
    return grid


def drawn(*parts: "RenderableType", width: int | None = None, colours: bool | None = None) -> str:
    """The parts below each other; `width` and `colours`: None for the terminal's."""
    from rich.console import Console

    can_draw = streams.can_draw(sys.stdout) if colours is None else colours
    out = StringIO()
    console = Console(
        file=out,
        width=screen_width() if width is None else width,
        force_terminal=can_draw,
        color_system="auto" if can_draw else None,
        highlight=False,
    )
    for part in parts:
        console.print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def put_parts(*parts: "RenderableType") -> None:
    """The parts on standard output."""
    streams.put_text(drawn(*parts))


def plain(cell: object) -> str:
    """A name or a number as the text of one cell, on one line; nothing in it can be meant to be invisible."""
    return visible(re.sub(r"\s", " ", "" if cell is None else str(cell)))


def harmless(text: str) -> str:
    """A worker's text as it is, but for what a terminal would obey, or not show."""
    return visible(text.expandtabs())
