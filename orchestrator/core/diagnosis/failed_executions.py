"""Failures as people see them, and executions that were tried again: what they said, took and cost."""

import msgspec

from orchestrator.core.gates.costs import MILLISECONDS


class FailureKind(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """A kind of failures of a run, and how many of them there are; `sample` is what one of them says, in one line."""

    count: int
    class_: str
    sample: str


class RetriedKind(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """Executions of one kind that failed and were tried again, or will be."""

    count: int
    class_: str
    sample: str
    """What the first one of them said, by type and message."""

    execution_s: float
    """What they took; of those whose time was not told, as much as of the others."""

    cost: float | None = None
    """At the price of the run; None where none is known."""

    unfinished: int | None = 0
    """How many jobs had one, and have not ended; None: nobody has counted them."""


class FailedExecutionView(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    """An execution of a job that failed, and that another one has followed. `at` is in microseconds UTC."""

    attempt: int
    at: int
    class_: str
    cluster: str
    """The name of its kind."""

    error: str
    execution_ms: int | None


def execution_s_of(total_ms: int, count: int, untold: int) -> float:
    """What so many executions took, of which some did not tell their time."""
    told = count - untold
    return total_ms * count / told / MILLISECONDS if told else 0.0
