"""The colours of all screens: each can be read on a black terminal and on a white one.

They are colours of the palette of 256, which terminals leave as they are: what the sixteen are is the user's, and many
a yellow or cyan cannot be read on white. Where a terminal has no more than those, Rich takes the nearest of them.
"""

import os
from typing import Final

GOOD: Final = "color(28)"
BUSY: Final = "color(30)"
DOUBTFUL: Final = "color(130)"
BAD: Final = "color(160)"
FAINT: Final = "color(244)"
"""What is not there yet: the rest of a bar."""


def escape(colour: str, *, bold: bool = False) -> str:
    """The sequence that begins `colour` on this terminal: bold, where it has only the sixteen colours of its user."""
    if "256" not in os.environ.get("TERM", "") and not os.environ.get("COLORTERM"):
        return "\x1b[1m"
    return f"\x1b[{'1;' if bold else ''}38;5;{colour.removeprefix('color(').rstrip(')')}m"
