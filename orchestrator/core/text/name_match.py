"""What somebody means who names one of several things: by its name, or by as much of it as no other one begins with."""

import difflib
import re
from collections.abc import Collection, Sequence
from typing import Final

NEAREST_AMONG_MAX: Final = 2_000
"""So many names are compared with one that nobody has; it takes some 10 ms."""


_LOOKS_LIKE_AN_ID: Final = re.compile(r"(?=[a-z]*[0-9])[a-z0-9]+")
"""The service's ids are lower-case letters with digits among them; a name with a capital, a dash or a space, or
without any digit, is none."""


def meant_by(text: str, names: Collection[str]) -> Sequence[str]:
    """The names that `text` can mean: itself where it is one of them, else all that begin with it, in their order."""
    if text in names:
        return [text]
    return [name for name in names if text and name.startswith(text)]


def nearest(text: str, names: Sequence[str]) -> str | None:
    """The one of `names` (of the last ones, where there are very many) that looks like `text`; None where none does."""
    return next(iter(difflib.get_close_matches(text, names[-NEAREST_AMONG_MAX:], n=1)), None)


def looks_like_an_id(text: str) -> bool:
    """Whether `text` is taken for an id until the service says otherwise."""
    return _LOOKS_LIKE_AN_ID.fullmatch(text) is not None
