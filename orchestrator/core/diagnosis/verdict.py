"""The verdict of a run: how it stands, in one word and in one sentence, and when it will be over.

Whoever shows a run says this: the pages, `status`, reports. What holds it up comes from `core.diagnosis.rules`, as a
sentence. Times are microseconds UTC.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

import msgspec

from orchestrator.core.batches.outlook import BatchesOutlook
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.core.text.durations import rough_duration
from orchestrator.core.text.wording import collect_again
from orchestrator.units import DAY_US, MINUTE_US, SECOND_US

ETA_US_MAX: Final = 366 * DAY_US
"""An end that is further away is none: the rate is that of a run that hardly goes."""

EXPIRES_SOON_S: Final = 15 * 60
"""So close to the first loss it is told with the verdict."""


class RunStanding(StrEnum):
    """How a run stands, in one word."""

    EMPTY = "empty"
    """It has no jobs."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    """It is over, and some of its jobs have no result."""

    FAILED = "failed"
    """It is over, and none of its jobs has a result."""

    CANCELLED = "cancelled"
    """It is over since somebody cancelled it: none has a result, and none has failed."""

    CANCELLING = "cancelling"
    WAITING = "waiting"
    """It has work left, and nobody works on it, or sends more of it."""

    PAUSED = "paused"
    ON_HOLD = "held"
    """Nothing more is sent, or single jobs only, before somebody, or the time, changes what stops it."""

    SENDING = "sending"
    COLLECTING = "collecting"
    """All is sent, and some is still to be collected."""


OVER: Final = frozenset(
    {RunStanding.EMPTY, RunStanding.SUCCEEDED, RunStanding.PARTIAL, RunStanding.FAILED, RunStanding.CANCELLED}
)
"""Nothing is left to do."""

MARKS: Final[Mapping[RunStanding, str]] = {
    RunStanding.EMPTY: "queued",
    RunStanding.SUCCEEDED: "succeeded",
    RunStanding.PARTIAL: "partial",
    RunStanding.FAILED: "failed",
    RunStanding.CANCELLED: "cancelled",
    RunStanding.CANCELLING: "held",
    RunStanding.WAITING: "held",
    RunStanding.PAUSED: "held",
    RunStanding.ON_HOLD: "held",
    RunStanding.SENDING: "running",
    RunStanding.COLLECTING: "running",
}
"""The word by which each has its sign and its colour."""


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict of a run goes by."""

    now: int
    counts: Mapping[str, int]
    """Jobs in each state."""

    is_worked_on: bool
    """Whether a process works on its ledger."""

    is_unserved: bool = False
    """Whether that process was not asked to send jobs of it."""

    is_paused: bool = False
    is_cancelled: bool = False
    stopped: str | None = None
    """Why nothing more of it is sent before somebody, or the time, changes something; or single jobs only, to find out
    whether all may go.
    """

    are_singles_sent: bool = False
    """Whether single jobs are, while it is stopped."""

    crawl_s: float | None = None
    """How long a job takes at the pace of these; None or 0 where nothing tells."""

    hindrance: str | None = None
    """What else holds it up, or makes it slower, in a sentence."""

    jobs_per_s: float | None = None
    """Jobs that end in a second, of late."""

    finish_by: int | None = None
    safe_offline_s: float | None = None
    """For how long no result can expire if nobody collects; None where none can."""

    batches: BatchesOutlook | None = None
    """How its batches at the service stand, as the process at work says; None without any that are open."""


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """How a run stands."""

    standing: RunStanding
    mark: str
    """One of the words that have a sign and a colour."""

    sentence: str
    brief: str
    """The same without why that is so, which may repeat what workers said."""

    total: int
    done: int
    """Jobs that have an outcome."""

    failed: int
    """Those that failed for good."""

    left: int
    eta_at: int | None = None
    """When it will be over, as fast as it goes now; None where nothing tells."""

    is_late: bool | None = None
    """Whether that is, or was already, after the time by which it is to be finished; None where nothing tells."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.standing in OVER


def verdict_on(run: RunFigures) -> RunVerdict:
    """How `run` stands."""
    standing = _standing(run)
    total = sum(run.counts.get(state, 0) for state in State)
    left = unfinished(run.counts)
    eta_at = _eta_at(run, left)
    is_late = None
    if run.finish_by is not None and left:
        is_late = True if run.now > run.finish_by else None if eta_at is None else eta_at > run.finish_by
    bare = msgspec.structs.replace(run, stopped=None, hindrance=None)
    return RunVerdict(
        standing=standing,
        mark=MARKS[standing],
        sentence=_sentence(run, standing, total, left, eta_at),
        brief=_sentence(bare, standing, total, left, eta_at),
        total=total,
        done=total - left,
        failed=run.counts.get(State.FAILED, 0),
        left=left,
        eta_at=eta_at,
        is_late=is_late,
    )


def _standing(run: RunFigures) -> RunStanding:
    if not unfinished(run.counts):
        return _end_of(run.counts)
    if run.is_cancelled:
        return RunStanding.CANCELLING
    if run.is_paused:
        return RunStanding.PAUSED
    if not run.is_worked_on or run.is_unserved:
        return RunStanding.WAITING
    if not run.counts.get(State.QUEUED, 0):
        return RunStanding.COLLECTING
    return RunStanding.SENDING if run.stopped is None else RunStanding.ON_HOLD


def _end_of(counts: Mapping[str, int]) -> RunStanding:
    succeeded, failed, cancelled = (counts.get(state, 0) for state in (State.SUCCEEDED, State.FAILED, State.CANCELLED))
    if not succeeded + failed + cancelled:
        return RunStanding.EMPTY
    if not failed + cancelled:
        return RunStanding.SUCCEEDED
    if succeeded:
        return RunStanding.PARTIAL
    return RunStanding.FAILED if failed else RunStanding.CANCELLED


def _eta_at(run: RunFigures, left: int) -> int | None:
    waits = run.counts.get(State.QUEUED, 0) and (run.stopped is not None or run.is_paused)
    if not left or not run.is_worked_on or (waits and not run.crawl_s):
        return None
    if run.batches is not None:
        return run.batches.eta_at(run.counts.get(State.QUEUED, 0))
    per_s = 1 / run.crawl_s if waits and run.crawl_s else run.jobs_per_s
    if not per_s:
        return None
    left_us = left / per_s * SECOND_US
    return run.now + int(left_us) if left_us <= ETA_US_MAX else None


# --- in words


def _sentence(run: RunFigures, standing: RunStanding, total: int, left: int, eta_at: int | None) -> str:
    if standing in OVER:
        return _ended(run.counts, standing, total)
    parts = [f"{left:,} of {total:,} to go"]
    if at_service := left - run.counts.get(State.QUEUED, 0):
        parts[0] += f", {at_service:,} at the service" if standing is not RunStanding.COLLECTING else ""
    parts += _pace(run, eta_at)
    parts += _hindrances(run, standing)
    lead = _SINGLES if standing is RunStanding.ON_HOLD and run.are_singles_sent else _LEADS[standing]
    return f"{lead} {'; '.join(parts)}."


_SINGLES: Final = "Held: single jobs only are sent."
_LEADS: Final[Mapping[RunStanding, str]] = {
    RunStanding.CANCELLING: "Being cancelled.",
    RunStanding.WAITING: "Nobody works on it.",
    RunStanding.PAUSED: "Paused: nothing is sent.",
    RunStanding.ON_HOLD: "Held: nothing more is sent.",
    RunStanding.SENDING: "Sending.",
    RunStanding.COLLECTING: "All is sent.",
}


def _ended(counts: Mapping[str, int], standing: RunStanding, total: int) -> str:
    failed, cancelled = (counts.get(state, 0) for state in (State.FAILED, State.CANCELLED))
    were = "was" if cancelled == 1 else "were"
    without = " and ".join(f"{n:,} {what}" for n, what in ((failed, "failed"), (cancelled, f"{were} cancelled")) if n)
    match standing:
        case RunStanding.EMPTY:
            return "It has no jobs."
        case RunStanding.SUCCEEDED:
            return f"Done: all {total:,} succeeded." if total > 1 else "Done: its one job succeeded."
        case RunStanding.CANCELLED:
            return f"Cancelled: none of {total:,} has a result."
        case RunStanding.FAILED:
            return f"Over: none of {total:,} has a result; {without}."
        case _:
            return f"Over: {counts.get(State.SUCCEEDED, 0):,} of {total:,} succeeded; {without}."


def _pace(run: RunFigures, eta_at: int | None) -> Iterator[str]:
    """When it is over, and by when it is to be."""
    by = None if run.finish_by is None else f"finish-by {utc_minute(run.finish_by, run.now)}"
    if run.finish_by is not None and run.now > run.finish_by:
        yield f"{by} is over"
    if run.batches is not None and run.is_worked_on:
        yield run.batches.sentence(run.now)
    if eta_at is None:
        if (
            run.batches is None
            and run.is_worked_on
            and run.jobs_per_s == 0
            and run.stopped is None
            and not run.is_paused
        ):
            yield "none has ended of late"
        return
    end = f"done about {utc_minute(eta_at, run.now)}"
    if run.finish_by is None or run.now > run.finish_by:
        yield end
    elif eta_at > run.finish_by:
        yield f"{end}, {rough_duration(eta_at - run.finish_by)} after {by}"
    else:
        yield f"{end}, in time for {by}"


def _hindrances(run: RunFigures, standing: RunStanding) -> Iterator[str]:
    if not run.is_worked_on and standing is not RunStanding.WAITING:
        yield "nobody works on it"
    if run.stopped is not None and standing is not RunStanding.PAUSED:
        yield run.stopped
    if run.hindrance is not None and run.hindrance != run.stopped:
        yield run.hindrance
    safe_s = run.safe_offline_s
    if safe_s is not None and not run.is_worked_on:
        yield collect_again(safe_s)
    elif safe_s is not None and safe_s < EXPIRES_SOON_S:
        yield f"results are safe for {rough_duration(int(max(safe_s, 1) * SECOND_US))} more if nobody collects"


def utc_minute(at: int, now: int) -> str:
    """A time of day for people, to the minute, with its day where that is not the day of `now`; both are UTC."""
    told, today = (datetime.fromtimestamp(each // MINUTE_US * MINUTE_US // SECOND_US, UTC) for each in (at, now))
    return f"{told:%H:%M} UTC" if told.date() == today.date() else f"{told:%Y-%m-%d %H:%M} UTC"
