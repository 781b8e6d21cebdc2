"""How much one transaction of an intake does, and the rest after it, so that nobody else at the ledger waits long."""

from collections.abc import Callable, Iterable
from typing import Final

import anyio

from orchestrator.ledger.schema.row_codec import fitting
from orchestrator.units import MIB, SECOND_US

ROWS_ALONE: Final = 20_000
"""Rows of one transaction where nobody waits for it: a third of a second. With 5,000 the pages of the index of ids,
which has no order, are written so often that a million rows take half as long again (measured).
"""

HOLD_US: Final = 15_000
"""How long a transaction should take beside others: a third of what it may, since disks and schedulers differ. A lower
figure gains nothing: the writer waits as long for company.
"""

ROWS_FIRST: Final = 200
ROWS_MIN: Final = 50
BYTES_BESIDE: Final = MIB
"""Inputs in one transaction beside others; a larger one goes alone."""

REST: Final = 3
"""A transaction is followed by a rest of so many times its length: who waits for SQLite's lock sleeps in growing steps,
and must not meet it taken again each time that it wakes.
"""

REST_S_MAX: Final = 1.0

Beside = Callable[[], bool]
"""Whether somebody else works on the ledger."""


class Pace:
    """The pace of one who writes many rows.

    Beside others it finds out how many rows take `HOLD_US`, and rests longer than it works.
    """

    def __init__(self) -> None:
        self.is_beside: Beside = lambda: False
        self._rows = ROWS_FIRST

    @property
    def rows(self) -> int:
        """How many rows the next transaction may write."""
        return self._rows if self.is_beside() else ROWS_ALONE

    def fitting(self, sizes: Iterable[int]) -> int:
        """How many rows, of these sizes in their order, the next transaction may write; at least one."""
        return fitting(sizes, BYTES_BESIDE) if self.is_beside() else sum(1 for _ in sizes)

    async def rest(self, rows: int, took_us: int) -> None:
        """Learns from a transaction that wrote `rows`, and lets others have their turn."""
        if self.is_beside():
            if rows == self._rows or took_us > HOLD_US:  # of a short one most was not for its rows
                self._rows = max(ROWS_MIN, min(2 * self._rows, rows * HOLD_US // max(took_us, 1)))
            await anyio.sleep(min(REST * took_us / SECOND_US, REST_S_MAX))
