"""An outstanding job in the plan of questions."""

from dataclasses import KW_ONLY, dataclass

from orchestrator.core.jobs.job import Job


@dataclass(slots=True, eq=False)
class Entry:
    """An outstanding job in the plan. All but `job` and `is_asked` is for the plan, or notes of the one who asks."""

    job: Job
    _: KW_ONLY
    since: int = 0
    """When the execution was asked for that is waited for: by `/run`, or by a later `/retry`."""

    retry_in_doubt: str | None = None
    """The reason why nobody knows whether its `/retry` was applied."""

    is_unsure: bool = False
    watch_us: int | None = None
    """If it is resumable: how often to ask how far it is; 0 for not at all, but at its deadlines."""

    number: int = 0
    """Jobs are numbered in the order in which they came here, which is nearly that of the service's queue."""

    ask_at: int | None = None
    asked_at: int | None = None
    asks: int = 0
    begun_at: int | None = None
    """When its execution began, as the service says."""

    by_second: int | None = None
    is_among_missing: bool = False
    """Whether it waits for its deadline among those that are missing."""

    deadline: int = 0
    finished_at: int | None = None
    """When an answer first said that it had finished."""

    gone_after_us: int | None = None
    """How long after its probable finish it was first found to be gone, if it has not been there since."""

    gone_at: int | None = None
    missed_at: int | None = None
    is_asked: bool = False
    """A question about it is on its way, or its answer is being dealt with."""

    is_hinted: bool = False
    is_queued: bool = False
    """When it was last asked for, its execution had not begun."""

    safe_second: int = 0
    troubles: int = 0

    @property
    def is_missing(self) -> bool:
        """Whether the service did not know it when it was last asked for."""
        return self.gone_after_us is not None
