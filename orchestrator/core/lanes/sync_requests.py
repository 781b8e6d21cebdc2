"""`/runsync`: what a held answer means, how long one is worth its place, and how long the service keeps such results.

The service answers with the record once the job has ended, or, when the wait is over, with how it stands: then it goes
on, and is asked for as any other (contract, Sync versus async). But its result is kept for a minute only.
"""

from typing import Final

import msgspec

from orchestrator.core.limits.rate_pacer import Limit
from orchestrator.core.service.http_answers import Answer
from orchestrator.core.service.job_record import Record, is_remote_id, read_record
from orchestrator.core.service.outcomes import TERMINAL_STATUSES, RunOutcome, Uncertain, run_outcome
from orchestrator.errors import NotSent, Unanswered
from orchestrator.units import SECOND_US

SYNC_RETENTION_US: Final = 60 * SECOND_US
"""How long the service keeps the result of a job that left by `/runsync` (contract, Limits)."""

WAIT_US: Final = 90 * SECOND_US
"""How long an answer may be held where jobs leave by `/runsync` alone: what the service does where nothing is said."""

WAIT_US_MIN: Final = SECOND_US
"""The service holds none for less."""

WORTH_SHARE: Final = 1 / 4
"""Beside `/run` the lane is worth its places while it takes at least this share of the jobs that `/run` does."""

AGAIN_SHARE: Final = 3 / 4
"""Once it was not, it is again where jobs end within this share of the longest hold."""


WHAT_A_CRASH_LOSES: Final = (
    "by /runsync, what a crash cuts off is uncertain (as many jobs as requests are held), and a result is kept for a"
    " minute only: what finishes more than a minute before somebody is back has expired"
)
"""What is said before the lane is used."""


class SyncEnd(msgspec.Struct, frozen=True):
    """The job has ended within the wait, as the record of the answer says; `remote_id` is its id."""

    remote_id: str
    record: Record


def sync_outcome(result: Answer | NotSent | Unanswered) -> SyncEnd | RunOutcome:
    """What the result of a `POST /runsync` means.

    `Accepted`: the job goes on. As with `/run`, what nobody answered is uncertain. So is a 408, which may be about the
    hold and not about the request: the service may have the job.
    """
    if isinstance(result, Answer):
        if result.status == 408:  # noqa: PLR2004
            return Uncertain("the service gave the request up (408)")
        if 200 <= result.status < 300:  # noqa: PLR2004
            record = read_record(result.body)
            if record is not None and record.status in TERMINAL_STATUSES and is_remote_id(record.remote_id):
                return SyncEnd(record.remote_id or "", record)
    return run_outcome(result)


def unfinished_at(sent_at: int, answered_at: int, wait_us: int) -> int:
    """The latest time at which a job was certainly not finished whose held answer says that it goes on.

    It was not when the wait was over, which began after `sent_at`; an answer that came sooner says nothing of when.
    """
    return sent_at + wait_us if answered_at - sent_at >= wait_us else sent_at


def longest_hold_us(run: Limit, sync: Limit) -> int | None:
    """How long answers may be held so that the lane is worth its places beside `/run`; None for any time.

    So many requests at once, each held for so long, take so many jobs a second (Little's law).
    """
    if sync.concurrent is None:
        return None
    return round(sync.concurrent * run.window_s / (WORTH_SHARE * run.requests) * SECOND_US)


def is_worth(typical_us: int | None, longest_us: int | None, *, was: bool) -> bool:
    """Whether the lane is worth its places where a job takes `typical_us` from its submission on (None: nobody knows).

    `was`: whether it was; what is near the bound changes nothing.
    """
    if typical_us is None or longest_us is None:
        return True
    return typical_us <= (longest_us if was else longest_us * AGAIN_SHARE)
