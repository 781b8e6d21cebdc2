"""The notices that wait for their turn: a few in memory, the others in the ledger only."""

from collections import deque
from collections.abc import Mapping
from typing import Final

from orchestrator.core.service.webhook_token import Notice, NoticeKey
from orchestrator.ledger import Ledger
from orchestrator.ledger.jobs.notices import NO_ENDPOINT
from orchestrator.units import MIB

BATCH_MAX: Final = 500

WAITING_MAX: Final = 5_000
"""How many notices wait in memory at most."""

BYTES_MAX: Final = 64 * MIB
"""No more are taken into memory once their outputs come to this."""

EARLY_US: Final = 100_000
"""How long what came early waits until it is looked at again."""


class NoticeQueue:
    """Those of an engine's `endpoints`, and, of the keeper's, those of nobody's. What comes while memory is full waits
    in the ledger, and so does what others note.

    From there they are read in pages, once fewer wait in memory than are gone through together. Which of them are in
    memory is known by their keys, until each was dealt with, so that none is there twice.
    """

    def __init__(
        self,
        ledger: Ledger,
        endpoints: Mapping[int, object],
        *,
        is_keeper: bool = True,
        waiting_max: int = WAITING_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._ledger = ledger
        self._endpoints = endpoints
        self._nobodys = (NO_ENDPOINT,) if is_keeper else ()
        self._waiting_max = waiting_max
        self._bytes_max = bytes_max
        self._waiting: deque[Notice] = deque()
        self._bytes = 0
        self._held: set[NoticeKey] = set()
        """Of all that are in memory, whether they wait or somebody is at them."""

        self._early: list[Notice] = []
        self._early_until = 0
        self._place: int | None = None
        """Up to where the ledger was read; None where nothing is to be read there."""

        self._is_full = False
        """Whether what comes is left in the ledger, behind what waits there already."""

        self._news = self._news_before = 0
        """How often there was something new in the ledger, and how often before it was read from its beginning."""

    def __len__(self) -> int:
        """How many notices wait in memory."""
        return len(self._waiting)

    @property
    def has_unread(self) -> bool:
        """Whether notices may wait in the ledger only."""
        return self._place is not None

    @property
    def has_early(self) -> bool:
        """Whether any came before what counts for more."""
        return bool(self._early)

    def came(self, notice: Notice) -> None:
        """`notice` is in the ledger."""
        if len(self._held) >= self._waiting_max or self._bytes >= self._bytes_max:
            self._is_full = True
        if self._is_full:
            self.look()
        elif notice.key not in self._held:
            self._held.add(notice.key)
            self.add(notice)

    def look(self) -> None:
        """There may be notices in the ledger that are not in memory."""
        self._news += 1
        if self._place is None:
            self._begin()

    def _begin(self) -> None:
        self._place, self._news_before = 0, self._news

    def add(self, notice: Notice) -> None:
        """`notice`, which is in memory, has its turn after those that wait."""
        self._waiting.append(notice)
        self._bytes += notice.bytes

    def add_early(self, notice: Notice) -> None:
        """`notice` has its turn after a while: what counts for more is still to come."""
        if not self._early:
            self._early_until = self._ledger.now() + EARLY_US
        self._early.append(notice)

    def leave(self, notice: Notice) -> None:
        """`notice` was dealt with, or is left to another process."""
        self._held.discard(notice.key)

    async def batch(self) -> list[Notice]:
        """The notices whose turn it is; none where nothing waits."""
        if self._early and self._ledger.now() >= self._early_until:
            for notice in self._early:
                self.add(notice)
            self._early.clear()
        if self._place is not None and len(self._waiting) < BATCH_MAX and self._bytes < self._bytes_max:
            await self._read_on(self._place)
        batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
        self._bytes -= sum(notice.bytes for notice in batch)
        return batch

    async def _read_on(self, place: int) -> None:
        """The next page of what waits in the ledger. It was all, once it is the last one and nothing came meanwhile.

        Else from the beginning: numbers of notices that were dealt with are given again, and on a server a smaller one
        may appear after a larger one.
        """
        page = await self._ledger.jobs.notices.after(
            place,
            most=BATCH_MAX,
            bytes_max=self._bytes_max - self._bytes,
            endpoints=(*self._endpoints, *self._nobodys),
            held=self._held,
        )
        for notice in page.notices:
            if notice.key not in self._held:  # else it came while the page was read
                self._held.add(notice.key)
                self.add(notice)
        self._place = page.place
        if page.place is None and self._news != self._news_before:
            self._begin()
        elif page.place is None:
            self._is_full = False
