"""Why a batch is, or was, dropped or cancelled: codes, which stand in ledgers, with their sentences."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Why(StrEnum):
    """A reason."""

    EMPTY = "empty"
    """Nothing is to go in it any more."""

    CANCELLED = "cancelled"
    """Its run was cancelled."""

    LATE = "late"
    """It would not end in time."""

    OTHER_LANE = "other_lane"
    """The jobs of its run leave in another way by now."""

    STOPPED = "stopped"
    """Nothing more of its run is sent before somebody does something."""

    FOREIGN = "foreign"
    FEWER = "fewer"
    PARTLY = "partly"
    UNTOLD = "untold"
    DISORDER = "disorder"
    UNNAMED = "unnamed"
    REFUSED = "refused"
    GONE = "gone"

    @property
    def sentence(self) -> str:
        """For people."""
        return SENTENCES[self]


SENTENCES: Final[Mapping[Why, str]] = MappingProxyType(
    {
        Why.EMPTY: "nothing is to go in it any more",
        Why.CANCELLED: "its run was cancelled",
        Why.LATE: "it would not end in time",
        Why.OTHER_LANE: "the jobs of its run leave in another way by now",
        Why.STOPPED: "nothing more of its run is sent",
        Why.FOREIGN: "it has requests that are not ours, or some of ours twice",
        Why.FEWER: "it has fewer requests than were added",
        Why.PARTLY: "only a part of what was added last is in it",
        Why.UNTOLD: "an append of several rows was not answered, and nothing shows which of them is which",
        Why.DISORDER: "the service names no rows as they are added, and its pages do not keep their order",
        Why.UNNAMED: "the service names no rows as they are added, and shows no pages of a draft",
        Why.REFUSED: "the service would not make it",
        Why.GONE: "the service does not know it any more",
    }
)

ENDS_THE_LANE: Final = frozenset({Why.DISORDER, Why.UNNAMED})
"""After these no other batch would be better: nobody could tell which result is of which row."""
