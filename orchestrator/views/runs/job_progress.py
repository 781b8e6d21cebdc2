"""How far resumable jobs are, as people and programs are shown it."""

import msgspec


class JobProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a resumable job without an outcome is. Times are microseconds UTC; None: that was not told yet."""

    job: int
    """Its number in the ledger."""

    custom_id: str
    state: str
    segment: int
    """Which execution of it is under way, or was the last; 0 before the first."""

    share: float | None
    """How much of it is done, 0 to 1, as its worker said last."""

    message: str | None
    """What the worker of this segment said last."""

    reported_at: int | None
    """When that was first known."""

    checkpoint_at: int | None
    """The same of the newest checkpoint, of whichever segment."""

    executed_s: float
    """How long workers have had it, in all its segments."""


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the jobs of a run are at a moment."""

    run: str
    at: int
    jobs: list[JobProgress]
    is_whole: bool
    """Whether these are all that have no outcome."""
