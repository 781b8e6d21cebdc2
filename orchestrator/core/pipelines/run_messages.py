"""What people are told of single runs: the messages, and which one an end is. They name, count and give reasons."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.notifications import WHY_CHARS_MAX, iso
from orchestrator.core.text.error_text import summary_of
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.core.text.wording import shortened

KINDS_MAX: Final = 3
KIND_CHARS_MAX: Final = 160
MONEY_DIGITS: Final = 6


class RunNews(StrEnum):
    """What somebody can be told of a run."""

    STARTED = "started"
    """Its input is taken in."""

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

    STALLED = "stalled"
    """Nothing of it has moved for long."""

    WILL_MISS = "will-miss"
    """At its pace it is not finished when it should be."""

    SPEND = "spend"
    """Most of its budget is spent."""

    INTERRUPTED = "interrupted"
    """The process that worked on it has ended, and jobs are left."""

    RECOVERED = "recovered"
    """What was told of before is over, and it goes on."""

    ABANDONED = "abandoned"
    """Nobody works on it, and results are about to expire."""


class FailureSample(msgspec.Struct, frozen=True):
    """So many failed in one way."""

    n: int
    error: str


class MessageFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say of a run beside its counts."""

    spent: float | None = None
    """None: nobody has said what a second costs."""

    budget: float | None = None
    kinds: tuple[FailureSample, ...] = ()
    """The most frequent ones."""


NO_FIGURES: Final = MessageFigures()


class _Run(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str
    why: str = ""
    rows: int
    succeeded: int
    failed: int
    cancelled: int
    unfinished: int = 0
    spent: float | None = None
    budget: float | None = None
    kinds: tuple[FailureSample, ...] = ()
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


def run_message(
    news: RunNews, *, run: str, jobs: Mapping[str, int], at: int, why: str = "", figures: MessageFigures = NO_FIGURES
) -> bytes:
    """The message that `news` is of a run: JSON."""
    counts = _counts(jobs)
    data = msgspec.structs.replace(
        counts,
        run=run,
        why=why.partition("\n")[0][:WHY_CHARS_MAX],
        spent=spent_shown(figures),
        budget=figures.budget or None,
        kinds=kinds_shown(figures),
        commands=_next_steps(news, run, counts),
    )
    return msgspec.json.encode(_Message(type=f"run.{news}", timestamp=iso(at), data=data))


def spent_shown(figures: MessageFigures) -> float | None:
    """What was spent, without digits that nobody pays."""
    return None if figures.spent is None else round(figures.spent, MONEY_DIGITS)


def kinds_shown(figures: MessageFigures) -> tuple[FailureSample, ...]:
    """The most frequent failures, each in one line."""
    return tuple(FailureSample(kind.n, _line(kind.error)) for kind in figures.kinds[:KINDS_MAX])


def _line(error: str) -> str:
    return shortened(summary_of(error), KIND_CHARS_MAX)


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


_STEPS: Final[Mapping[RunNews, tuple[NextStep, ...]]] = MappingProxyType(
    {
        RunNews.ON_HOLD: (NextStep.SHOW_BRAKES, NextStep.CONTINUE_RUN),
        RunNews.STOPPED: (NextStep.DIAGNOSE_RUN, NextStep.RESUME_RUN),
        RunNews.STALLED: (NextStep.DIAGNOSE_RUN,),
        RunNews.WILL_MISS: (NextStep.DIAGNOSE_RUN, NextStep.SHOW_LIMITS),
        RunNews.SPEND: (NextStep.SHOW_BRAKES, NextStep.CHANGE_BRAKES),
        RunNews.INTERRUPTED: (NextStep.RESUME_RUN,),
    }
)


def _next_steps(news: RunNews, run: str, counts: _Run) -> tuple[Suggestion, ...]:
    """What shows what has happened, and does something about it."""
    steps = _STEPS.get(news, ())
    if news in (RunNews.PARTIAL, RunNews.FAILED) and counts.failed:
        steps = NextStep.SHOW_FAILURES, NextStep.RETRY_RUN
    return tuple(Suggestion(step, run) for step in (NextStep.SHOW_RUN, *steps))
