"""Whether whoever sends may: where owners of a place follow each other, after the first request of one none of an earlier
one leaves.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence


class Succession:
    """Of several places, from one request to the next. Who has lost a place may have it again."""

    def __init__(self) -> None:
        self._latest: defaultdict[Hashable, int] = defaultdict(int)

    def may_send(self, sender: str, place: Hashable, owners: Sequence[str]) -> bool:
        """Whether it may send there now, where the place has those `owners`, in their order."""
        number = self._latest[place]
        if sender not in owners[number:]:
            return False
        self._latest[place] = owners.index(sender, number)
        return True

    def latest(self, place: Hashable, owners: Sequence[str]) -> str:
        """The owner that has sent there last."""
        return owners[self._latest[place]]
