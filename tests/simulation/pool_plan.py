"""The pool of a simulated world as it is drawn: how fast its members are, their lanes, and what befalls them."""

from enum import StrEnum, auto

import msgspec

from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member import Prefer


class MemberTrouble(StrEnum):
    """What is wrong with a member of a pool."""

    REFUSED = auto()
    """Connections to it are refused, and answers of it that are under way are lost."""
    THROTTLED = auto()
    """There is a machine for none of its workers; who is at work ends that."""
    WITHOUT_WORKERS = auto()
    """It has none, and starts none; who is at work ends that."""
    BROKEN = auto()
    """Its workers can do nothing: executions fail at once."""


class MemberWeather(msgspec.Struct, frozen=True, kw_only=True):
    """One trouble of the member of that number (from 0, the run's own endpoint), from `at_s` to `until_s`."""

    member: int
    trouble: MemberTrouble
    at_s: float
    until_s: float
    """Infinite: it is never well again."""


class PoolPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The endpoints that share the jobs of the first run, its own the first of them."""

    workers: tuple[int, ...]
    speeds: tuple[float, ...]
    """Executions there take so many times as long as the plan says."""
    named: tuple[int, ...]
    """How many of them the first process is told of, and so on; the last one holds for those that follow."""
    prefer: Prefer = Prefer.FAST
    vias: tuple[Via | None, ...] = ()
    """The lanes that members have of their own, the first ones first; None: that of the run."""
    weather: tuple[MemberWeather, ...] = ()

    def via(self, member: int) -> Via | None:
        """The lane that the member has of its own."""
        return self.vias[member] if member < len(self.vias) else None

    def troubles(self, member: int, at_s: float) -> set[MemberTrouble]:
        """What is wrong with the member at that time."""
        return {each.trouble for each in self.weather if each.member == member and each.at_s <= at_s < each.until_s}

    def named_to(self, process: int) -> int:
        """How many members the so manieth process of the run (from 0) is told of."""
        return self.named[min(process, len(self.named) - 1)]
