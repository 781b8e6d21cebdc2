"""The flows of a simulated world, as they are drawn."""

from typing import Final

import msgspec

PIPELINE: Final = "night"
FIRST_ROW: Final = 1_000_001
"""The number of the first row of the first flow: no run of the world has as many."""


class FlowsPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Flows of one pipeline, each of so many `rows`."""

    asked_s: tuple[float, ...]
    """When somebody asks for each."""
    rows: int
    has_command: bool
    """Whether a command stands between its stages, which begins once all before it is over."""
    needs: int
    """The share that it needs, millionths."""
    side_by_side: int
    """So many flows at once."""
    are_looked_at_s: tuple[float, float]
    """How long whoever looks after a flow does something else, from and to."""
    again_from: str | None = None
    """The stage from which somebody has each flow carried out once more when it has succeeded; None: nobody does."""
    only_failed: bool = False
    """Whether what has succeeded is taken over then."""
    paused: float
    """How likely a flow that goes on is paused by whoever looks at it."""

    def numbers(self, flow: int) -> range:
        """Those of the rows of a flow (from 0)."""
        first = FIRST_ROW + flow * self.rows
        return range(first, first + self.rows)
