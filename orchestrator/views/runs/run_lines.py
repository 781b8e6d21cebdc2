"""Runs in lists, and what a run's own page shows of it."""

import msgspec

from orchestrator.views.costs import CostView


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list of runs, or a flow with the runs of its stages. Times are microseconds UTC."""

    name: str
    run: int | None
    """Its number; None for a flow."""

    flow: int | None = None
    """The flow's number, of a flow and of a stage."""

    stage: str | None = None
    """Which stage of its flow it carries out."""

    pipeline: str | None = None
    """The flow's."""

    standing: str
    """In one word."""

    mark: str
    """The word by which it has its sign and its colour."""

    sentence: str
    total: int
    done: int
    """Jobs that have an outcome."""

    failed: int
    jobs_per_s: float | None = None
    """Of late; None where nobody works on it."""

    eta_at: int | None = None
    spent: CostView | None = None
    safe_offline_s: float | None = None
    """For how long no result can expire if nobody collects; None where none can."""

    began_at: int
    ended_at: int | None = None
    """When the last of its jobs ended, once all have."""

    took_s: float
    """Until then, or until now."""

    stages: tuple["RunLine", ...] = ()
    """Of a flow, in the order in which they began."""
