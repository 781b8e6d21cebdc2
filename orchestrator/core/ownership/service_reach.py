"""Whether a process that gets no answer from a service hands over what it has there: somebody whose network works goes
on. It reaches its ledger and beats, so nobody would take it away.

Where nobody reaches the service, it would go round and round, and each time requests in flight would be given up. So
each process hands over a shard once, until it has had an answer there again, or long enough has passed. For as long it
stands back from whatever is free: it would mostly get that, since it has the fewest.
"""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from orchestrator.core.ownership.lease import TRUST_US
from orchestrator.units import MINUTE_US, SECOND_US

UNREACHED_US: Final = 30 * SECOND_US
"""After so long without any answer a shard is handed over."""

FORGOTTEN_US: Final = 10 * MINUTE_US
"""So long a process remembers what it has handed over. It has nothing there by which to find out that its network was
mended; where it was not, trying costs `UNREACHED_US` each time."""


RECENT_US: Final = 5 * SECOND_US
"""An answer that came so recently tells that the way is open, whatever has failed since."""


class EndpointReach(NamedTuple):
    """What the requests to an endpoint tell about the way there."""

    answered_at: int
    """When the last answer of any kind came; 0: none has."""

    unreachable_us: int | None
    """For how long nothing has got through; None while something does, or nobody has tried of late."""


class ShardReach(NamedTuple):
    """The same of all endpoints of a shard together."""

    unreached_us: int
    """For how long requests have failed to all that were tried; 0: they do not."""

    is_answered: bool
    """Whether anything was answered, and has not failed for longer since."""


def shard_reach(endpoints: Collection[EndpointReach], now: int) -> ShardReach:
    """That of a shard with these `endpoints`: as long as one of them answers it is reached."""
    answered_at = max((each.answered_at for each in endpoints), default=0)
    failing = [each.unreachable_us for each in endpoints if each.unreachable_us is not None]
    unreached_us = max(0, min(max(failing, default=0), now - answered_at))
    return ShardReach(unreached_us, is_answered=answered_at > 0 and unreached_us < RECENT_US)


class ServiceReach:
    """What one process has handed over because it got no answer."""

    def __init__(self) -> None:
        self._handed_over: dict[int, int] = {}
        """When, by the shards' numbers."""

        self._leaving: set[int] = set()
        """Of these, those that it has still."""

        self._with_ledger_since = 0
        self._asked_at: int | None = None

    def to_hand_over(
        self, mine: Iterable[int], reaches: Iterable[tuple[int, ShardReach]], others: Collection[int], at: int
    ) -> set[int]:
        """Which of its shards, `mine`, it hands over at that time, where `others` are the processes that live besides
        it: until they have gone over, or are answered after all. `reaches` are of those at which its engines work.

        It is asked as often as the process looks at the ledger. Who has not asked for a while could not look, and was
        not allowed to send either: that nothing was answered meanwhile says nothing.
        """
        if self._asked_at is None or at - self._asked_at > TRUST_US:
            self._with_ledger_since = at
        self._asked_at = at
        found = dict(reaches)
        answered = {shard for shard, reach in found.items() if reach.is_answered}
        self._handed_over = {
            shard: since
            for shard, since in self._handed_over.items()
            if shard not in answered and at - since < FORGOTTEN_US
        }
        tried_us = at - self._with_ledger_since
        lost = {shard for shard, reach in found.items() if min(reach.unreached_us, tried_us) >= UNREACHED_US}
        fresh = lost - self._handed_over.keys() if others else set[int]()
        self._handed_over |= dict.fromkeys(fresh, at)
        self._leaving = ((self._leaving & set(mine)) | fresh) - answered
        return self._leaving

    def stands_back(self, others: Collection[int]) -> bool:
        """Whether it asks for nothing, and takes what is free only once none of the `others` has."""
        return bool(self._handed_over) and bool(others)
