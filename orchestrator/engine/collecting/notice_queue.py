"""The notices that wait for their turn: a few in memory, the others in the ledger only."""

from collections import deque
from typing import Final

from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger import Ledger
from orchestrator.units import MIB

BATCH_MAX: Final = 500

WAITING_MAX: Final = 5_000
"""How many notices wait in memory at most."""

BYTES_MAX: Final = 64 * MIB
"""No more are taken into memory once their outputs come to this."""

EARLY_US: Final = 100_000
"""How long what came early waits until it is looked at again."""


class NoticeQueue:
    """While more notices come than are dealt with, the others wait in the ledger, and are read from there in pages once
    memory is empty.
    """

    def __init__(self, ledger: Ledger, *, waiting_max: int = WAITING_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._ledger = ledger
        self._waiting_max = waiting_max
        self._bytes_max = bytes_max
        self._waiting: deque[Notice] = deque()
        self._bytes = 0
        self._early: list[Notice] = []
        self._early_until = 0
        self._unread: int | None = None
        """The number of the last notice that was read from the ledger; None where nothing waits there alone."""

        self._passed_over = 0
        self._known_over = 0

    def __len__(self) -> int:
        """How many notices wait in memory."""
        return len(self._waiting)

    @property
    def has_unread(self) -> bool:
        """Whether notices may wait in the ledger only."""
        return self._unread is not None

    @property
    def has_early(self) -> bool:
        """Whether any came before what counts for more."""
        return bool(self._early)

    def came(self, notice: Notice, *, beside: int) -> None:
        """`notice` is in the ledger; `beside` others are in memory that do not wait here."""
        waiting = len(self._waiting) + beside
        if self._unread is None and (waiting >= self._waiting_max or self._bytes >= self._bytes_max):
            self._unread = 0
        if self._unread is not None:
            self._passed_over += 1
        else:
            self.add(notice)

    def read_all(self) -> None:
        """There may be notices in the ledger that an earlier process did not get to."""
        self._unread = 0

    def add(self, notice: Notice) -> None:
        """`notice` has its turn after those that wait."""
        self._waiting.append(notice)
        self._bytes += _size(notice)

    def add_early(self, notice: Notice) -> None:
        """`notice` has its turn after a while: what counts for more is still to come."""
        if not self._early:
            self._early_until = self._ledger.now() + EARLY_US
        self._early.append(notice)

    async def batch(self) -> list[Notice]:
        """The notices whose turn it is; none where nothing waits."""
        if self._early and self._ledger.now() >= self._early_until:
            for notice in self._early:
                self.add(notice)
            self._early.clear()
        if not self._waiting and self._unread is not None:
            await self._read_on(self._unread)
        batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
        self._bytes -= sum(map(_size, batch))
        return batch

    async def _read_on(self, after: int) -> None:
        """The next page of what waits in the ledger. It was all, once a page is empty and nothing came meanwhile.

        Else from the beginning: numbers of notices that were dealt with are given again.
        """
        if after == 0:
            self._known_over = self._passed_over
        page = await self._ledger.jobs.notices.after(after=after, most=BATCH_MAX, bytes_max=self._bytes_max)
        for _, notice in page:
            self.add(notice)
        if page:
            self._unread = page[-1][0]
        elif self._known_over == self._passed_over:
            self._unread = None
        else:
            self._unread = 0


def _size(notice: Notice) -> int:
    """The bytes of its output."""
    return len(notice.record.output or b"") if notice.record is not None else 0
