"""The engines of a simulated world that share a ledger on a server, as they are drawn, and what befalls them."""

from enum import StrEnum, auto

import msgspec

from tests.simulation.flows.plan import FlowsPlan


class Trouble(StrEnum):
    """What befalls the process of an engine."""

    KILLED = auto()
    FROZEN = auto()
    """It stands still, as by SIGSTOP, and goes on."""
    NO_LEDGER = auto()
    """Nothing arrives between it and the database, and nobody is told."""
    NO_SERVICE = auto()
    """It reaches no service, and no webhook reaches it."""
    NEITHER = auto()
    ASKED = auto()
    """It is asked to stop, as by SIGTERM."""
    CLOCK = auto()
    """Its wall clock is set by so many seconds."""


class Befalls(msgspec.Struct, frozen=True, kw_only=True):
    """Something befalls one of them, from `at_s` on, for `size` seconds where it is for a while."""

    trouble: Trouble
    at_s: float
    size: float = 0.0
    who: int | None = None
    """Which engine (from 0); None: whichever sent last."""

    @property
    def until_s(self) -> float:
        """When it is over."""
        return self.at_s + self.size


class EnginesPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Several engines, each of which begins again a while after it has ended."""

    begin_s: tuple[float, ...]
    """When each begins first."""
    befalls: tuple[Befalls, ...]
    again_s: float
    """So long after its end an engine begins again."""
    drifts: tuple[float, ...]
    """By which share its elapsed clock is fast."""
    are_of_one_machine: bool
    """Whether all are of one boot of one machine, and believe each other's marks of what was sent."""

    flows: FlowsPlan | None = None
    """None: a pipeline fires, and its flows wait for an input that never comes; nobody asks for others."""

    people_s: float = 0.0
    """When people come with their runs: whoever finds nobody at work has the whole ledger."""

    def __str__(self) -> str:
        told = "; ".join(
            f"{each.trouble} at {each.at_s:.1f} s ({each.size:g} s) of {'the owner' if each.who is None else each.who}"
            for each in self.befalls
        )
        begin = ", ".join(f"{each:g}" for each in self.begin_s)
        return f"from {begin} s, again after {self.again_s:g} s, one machine: {self.are_of_one_machine}; {told}"
