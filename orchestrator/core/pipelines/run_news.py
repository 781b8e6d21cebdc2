"""What people are told of single runs: the messages, and which one an end is. They name, count and give reasons."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.notifications import WHY_CHARS_MAX, iso
from orchestrator.core.text.next_step import NextStep, Suggestion


class RunNews(StrEnum):
    """What somebody can be told of a run."""

    DONE = "done"
    """Every job succeeded."""

    PARTIAL = "partial"
    """Every job has its outcome, and some failed or were cancelled."""

    FAILED = "failed"
    """Every job has its outcome, and none succeeded."""

    ON_HOLD = "held"
    """A brake has stopped it."""

    STOPPED = "stopped"
    """Going on is pointless until somebody mends something."""


class _Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str
    why: str = ""
    rows: int
    succeeded: int
    failed: int
    cancelled: int
    unfinished: int = 0
    commands: tuple[Suggestion, ...]


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    timestamp: str
    data: _Run


def run_end(jobs: Mapping[str, int]) -> RunNews | None:
    """What has happened to a run that has so many jobs in each state; None where it is not over."""
    counts = _counts(jobs)
    if counts.unfinished or not counts.rows:
        return None
    if counts.succeeded == counts.rows:
        return RunNews.DONE
    return RunNews.PARTIAL if counts.succeeded else RunNews.FAILED


def run_message(news: RunNews, *, run: str, jobs: Mapping[str, int], at: int, why: str = "") -> bytes:
    """The message that `news` is of a run: JSON."""
    counts = _counts(jobs)
    data = msgspec.structs.replace(
        counts, run=run, why=why.partition("\n")[0][:WHY_CHARS_MAX], commands=_next_steps(news, run, counts)
    )
    return msgspec.json.encode(_Message(type=f"run.{news}", timestamp=iso(at), data=data))


def _counts(jobs: Mapping[str, int]) -> _Run:
    number = {state: jobs.get(state, 0) for state in State}
    ended = (number[State.SUCCEEDED], number[State.FAILED], number[State.CANCELLED])
    return _Run(
        run="",
        rows=sum(number.values()),
        succeeded=ended[0],
        failed=ended[1],
        cancelled=ended[2],
        unfinished=sum(number.values()) - sum(ended),
        commands=(),
    )


def _next_steps(news: RunNews, run: str, counts: _Run) -> tuple[Suggestion, ...]:
    """What shows what has happened, and does something about it."""
    steps: tuple[NextStep, ...] = ()
    if news is RunNews.ON_HOLD:
        steps = NextStep.SHOW_BRAKES, NextStep.CONTINUE_RUN
    elif news is RunNews.STOPPED:
        steps = NextStep.DIAGNOSE_RUN, NextStep.RESUME_RUN
    elif counts.failed:
        steps = NextStep.SHOW_FAILURES, NextStep.RETRY_RUN
    return tuple(Suggestion(step, run) for step in (NextStep.SHOW_RUN, *steps))
