"""Colours: each can be read on black and on white, and no other is used."""

import re
from pathlib import Path

import pytest
from rich.color import Color

from orchestrator.cli.output import theme
from orchestrator.cli.output.theme import escape

NAMED = {name: value for name, value in vars(theme).items() if name.isupper()}
CLI = Path(theme.__file__).parents[1]


def luminance(colour: str) -> float:
    """As WCAG 2 defines it."""

    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, Color.parse(colour).get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", NAMED)
def test_each_can_be_read_on_black_and_on_white(name: str) -> None:
    here = luminance(NAMED[name])
    assert (here + 0.05) / 0.05 >= 3.8
    assert 1.05 / (here + 0.05) >= 3.8


def test_no_other_is_used() -> None:
    word = re.compile(r"[\"' ](?:bright_)?(?:yellow|green|cyan|red|magenta|blue|white|black)[\"' ]")
    used = {path.name: word.findall(path.read_text(encoding="utf-8")) for path in CLI.rglob("*.py")}
    assert {name for name, found in used.items() if found} == {"theme.py"}, used


def test_without_a_palette_of_256_a_word_is_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLORTERM", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert escape(theme.BAD, bold=True) == "\x1b[1;38;5;160m"
    assert escape(theme.DOUBTFUL) == "\x1b[38;5;130m"
    monkeypatch.setenv("TERM", "linux")
    assert escape(theme.BAD) == "\x1b[1m"
    monkeypatch.setenv("COLORTERM", "truecolor")
    assert escape(theme.BAD) == "\x1b[38;5;160m"
