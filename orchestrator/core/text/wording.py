"""Sentences that several parts of the program say to people, so that they are the same everywhere."""

from typing import Final

from orchestrator.core.text.durations import rough_duration
from orchestrator.units import SECOND_US

ELLIPSIS: Final = "…"

WORD_CHARS_MAX: Final = 30
"""A word that is longer is cut in its middle: the line would be too short otherwise."""


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """How many of what: "1 job", "1,000 jobs"; `plural` where it is not made by an s."""
    return f"1 {noun}" if n == 1 else f"{n:,} {plural or f'{noun}s'}"


def collect_again(left_s: float) -> str:
    """What to do where results can expire in `left_s` seconds, rounded down."""
    if left_s < 1:
        return "results may have expired already: resume soon"
    return f"collect again within {rough_duration(int(left_s * SECOND_US))}, or results expire"


def shortened(text: str, chars_max: int) -> str:
    """`text`, one line, in at most `chars_max` characters: what is longer ends after a whole word with an ellipsis."""
    if len(text) <= chars_max:
        return text
    end = chars_max - len(ELLIPSIS)
    between_words = text.rfind(" ", max(1, end - WORD_CHARS_MAX), end + 1)
    return text[: between_words if between_words > 0 else end].rstrip() + ELLIPSIS


def visible(text: str) -> str:
    """`text`, in which what a terminal would obey, or not show, is written out: control characters but line ends, and
    marks that turn the direction of what follows.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


def visible_json(text: str) -> str:
    """The same of JSON, one document or one on each line, as JSON writes it: whoever reads that gets what there was."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


_SMALL: Final = {capital: capital + 32 for capital in range(ord("A"), ord("Z") + 1)}


def folded(text: str) -> str:
    """With small letters of ASCII only: what databases can do too."""
    return text.translate(_SMALL)
