"""Lines of help: headings, terms with their text beside or below them, paragraphs; broken to a width.

It is plain text, with bold headings and terms on a terminal: nothing has to be loaded for it.
"""

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from orchestrator.cli.output import streams

WIDTH_MAX: Final = 100
"""Longer lines are hard to read."""

INDENT: Final = "  "
_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"
_MARKUP: Final = re.compile(r"(?<!\\)\[(?:bold|/)\]")


class Screen:
    """The lines so far."""

    def __init__(self, *, width: int | None = None, colours: bool | None = None) -> None:
        columns = shutil.get_terminal_size().columns if width is None else width
        self.width = min(columns, WIDTH_MAX)
        self.lines: list[str] = []
        wants = streams.can_draw(sys.stdout) and not os.environ.get("NO_COLOR")
        self._colours = wants if colours is None else colours

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def gap(self) -> None:
        """An empty line, unless there is one already."""
        if self.lines and self.lines[-1]:
            self.lines.append("")

    def heading(self, text: str, *, is_close: bool = False) -> None:
        """A line that opens those below it, set off from those above it unless it `is_close` to them."""
        if not is_close:
            self.gap()
        self.lines.append(self._strong(text))

    def paragraph(self, text: str, indent: str = "") -> None:
        """`text`, broken between words."""
        self.lines += self._filled(text, indent)

    def as_written(self, text: str, indent: str = INDENT) -> None:
        """Lines that stay as they are, such as commands."""
        self.lines += [f"{indent}{line}".rstrip() for line in text.splitlines()]

    def beside(self, rows: Sequence[tuple[str, str]], *, wide: int | None = None) -> None:
        """A term and its text on each line, or below it where the term is longer than `wide` (None: than none is)."""
        wide = max((len(term) for term, _ in rows), default=0) if wide is None else wide
        hanging = " " * (len(INDENT) + wide + 2)
        for term, text in rows:
            first, *rest = self._filled(text, hanging) or [hanging]
            if len(term) > wide:
                self.lines += [f"{INDENT}{self._strong(term)}", *([first] if first.strip() else []), *rest]
            else:
                padding = " " * (wide - len(term) + 2)
                self.lines += [f"{INDENT}{self._strong(term)}{padding}{first.strip()}".rstrip(), *rest]

    def below(self, term: str, text: str) -> None:
        """A term on a line of its own, and its text below it."""
        self.lines.append(f"{INDENT}{self._strong(term)}")
        self.paragraph(text, INDENT * 3)

    def _filled(self, text: str, indent: str) -> list[str]:
        return textwrap.wrap(
            unstyled(text),
            self.width,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )

    def _strong(self, text: str) -> str:
        return f"{_BOLD}{text}{_PLAIN}" if self._colours and text else text


def unstyled(markup: str) -> str:
    """A text without the marks of a style, as help texts have them."""
    return _MARKUP.sub("", markup).replace("\\[", "[")
