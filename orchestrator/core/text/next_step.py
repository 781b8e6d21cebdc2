"""What people may do next, as data: rules suggest a step, and whoever shows it words it, as a command for example."""

from collections.abc import Callable
from enum import StrEnum

import msgspec


class NextStep(StrEnum):
    """What can be done about what a message tells. Messages in ledgers hold these words."""

    SHOW_RUN = "show-run"
    RESUME_RUN = "resume-run"
    SERVE = "serve"
    """Have a process work on the ledger, whatever is in it."""

    CONTINUE_RUN = "continue-run"
    """Past its brakes, or after a pause."""

    UNPAUSE_RUN = "unpause-run"
    RETRY_RUN = "retry-run"
    DIAGNOSE_RUN = "diagnose-run"
    SHOW_FAILURES = "show-failures"
    REVALIDATE_RUN = "revalidate-run"
    SHOW_LIMITS = "show-limits"
    SHOW_BRAKES = "show-brakes"
    CHANGE_BRAKES = "change-brakes"
    CHANGE_RATE = "change-rate"
    CHANGE_CONCURRENCY = "change-concurrency"
    CANCEL_RUN = "cancel-run"
    CANCEL_JOBS = "cancel-jobs"
    SHOW_FLOW = "show-flow"
    CONTINUE_FLOW = "continue-flow"
    CARRY_OUT_FLOWS = "carry-out-flows"
    SHOW_SCHEDULE = "show-schedule"
    CONTINUE_SCHEDULE = "continue-schedule"
    BACKFILL = "backfill"
    RESTORE_WORKERS = "restore-workers"
    READ_WORKER_LOGS = "read-worker-logs"
    COMPACT_LEDGER = "compact-ledger"


class Suggestion(msgspec.Struct, frozen=True, array_like=True):
    """A step, and what it is about."""

    step: NextStep
    name: str = ""
    """Of the run, the flow or the pipeline; empty where it is about none."""

    since: str = ""
    until: str = ""
    """The first time and the end of what is filled in."""


Wording = Callable[[Suggestion], str]
"""How steps are worded for those who read them."""


def plain(suggestion: Suggestion) -> str:
    """The step in its own words, for those who have no commands."""
    return " ".join(filter(None, (suggestion.step.replace("-", " "), *msgspec.structs.astuple(suggestion)[1:])))
