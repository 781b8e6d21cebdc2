"""What somebody means who names one of several things: by its name, or by as much of it as no other one begins with."""

import difflib
from collections.abc import Collection, Sequence
from typing import Final

NEAREST_AMONG_MAX: Final = 2_000
"""So many names are compared with one that nobody has; it takes some 10 ms."""


def meant_by(text: str, names: Collection[str]) -> Sequence[str]:
    """The names that `text` can mean: itself where it is one of them, else all that begin with it, in their order."""
    if text in names:
        return [text]
    return [name for name in names if text and name.startswith(text)]


def nearest(text: str, names: Sequence[str]) -> str | None:
    """The one of `names` (of the last ones, where there are very many) that looks like `text`; None where none does."""
    return next(iter(difflib.get_close_matches(text, names[-NEAREST_AMONG_MAX:], n=1)), None)
