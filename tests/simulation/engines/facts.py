"""What is known of the engines of a world: who sent what, and when each could do anything."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from orchestrator.units import SECOND_US
from tests.simulation.clock import STILL
from tests.simulation.engines.plan import Befalls

EVERY_US: Final = 20 * SECOND_US

Span = tuple[int, int]
"""From when to when, microseconds by the true clock."""


class Sent(NamedTuple):
    """A process has sent a request."""

    at: int
    process: str
    """Its mark."""
    place: str
    """The endpoint, with its service."""
    operation: str


class Known:
    """One process. Its `number` tells it from all others of a world, and so does its `mark`."""

    def __init__(self, number: int, mark: str, began_at: int) -> None:
        self.number = number
        self.mark = mark
        self.is_engine = False
        self.life: Span = (began_at, STILL)
        self.unable: list[Span] = []
        """When it stood still, or was cut off."""

        self.owned: list[Span] = []
        """When it had the ledger, as far as it knew."""

    def __str__(self) -> str:
        return f"process {self.number}"

    @property
    def owns(self) -> bool:
        """Whether it has it now, as far as it knows."""
        return self.life[1] == STILL and bool(self.owned) and self.owned[-1][1] == STILL

    def worked(self, now: int) -> Iterator[Span]:
        """When it worked on the ledger, by now."""
        for start, end in self.owned:
            edges = sorted(
                {start, min(end, now), *(each for span in self.unable for each in span if start < each < end)}
            )
            for since, until in pairwise(edges):
                if self.is_able(since, until):
                    yield since, until

    def ended(self, at: int) -> None:
        self.life = (self.life[0], at)

    def is_able(self, since: int, until: int) -> bool:
        """Whether it could do all that it should for all of that time."""
        return (
            self.life[0] <= since
            and until <= self.life[1]
            and not any(start < until and since < end for start, end in self.unable)
        )


class Owned(NamedTuple):
    """A shard got another owner, as the ledger says."""

    shard: int
    mark: str | None
    """The owner's; None: nobody's."""


class EnginesFacts:
    """Those of a world."""

    def __init__(self) -> None:
        self.processes: list[Known] = []
        self.sent: list[Sent] = []
        """By every process, in order."""
        self.owned: Sequence[Owned] = ()
        """Each change of an owner, in order."""
        self.scheduled_at: int | None = None
        """When a schedule began to count that fires each `EVERY_US`."""
        self.befell: list[tuple[int, str, Befalls]] = []
        """When what happened to which process: its mark."""
        self.is_last_word_missing = False
        """Whether one was killed as it ended, when there was nothing left that another one would have taken over."""
