"""When results are given up to expire since nobody works, who is told of that, and what the one message says.

It is of all runs together: a process that is gone leaves all that it worked on, and nobody wants an alarm for each.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.core.jobs.deadlines import EXPIRING_US
from orchestrator.core.jobs.lifecycle import State, unfinished
from orchestrator.core.pipelines.notifications import WHY_CHARS_MAX, iso
from orchestrator.core.pipelines.pipeline import Notify
from orchestrator.core.pipelines.receivers import (
    WRITTEN_OUT,
    Receiver,
    receivers_for,
    receivers_of_pipeline,
    receivers_of_run,
    written_out,
)
from orchestrator.core.pipelines.run_messages import FailureSample, MessageFigures, RunNews, kinds_shown, spent_shown
from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.units import DAY_US, MINUTE_US

GRACE_US: Final = MINUTE_US
"""So long a process that begins anew may take: it is not missed before."""

SAME_US: Final = 10 * MINUTE_US
"""Who is gone again so soon after somebody was told has not been back."""

FORGOTTEN_US: Final = DAY_US
"""What nobody has worked on for so long was left on purpose, or is lost: nobody has to get up for it."""


class StageOf(msgspec.Struct, frozen=True, kw_only=True):
    """The flow that a run is a stage of."""

    flow: int
    flow_name: str
    pipeline: int
    notify: Notify | None = None


class RunLeft(msgspec.Struct, frozen=True, kw_only=True):
    """A run of which jobs are at the service."""

    run: int
    name: str
    notify: str | None
    """As its settings say it."""

    waiting: int
    """How many of its jobs are at the service, or may be."""

    stage: StageOf | None = None


class Telling(msgspec.Struct, frozen=True):
    """One who is told, and of which runs: the first to lose a result comes first."""

    target: str
    """Its name, or `WRITTEN_OUT`: what stands with the first of the runs, or with its pipeline."""

    runs: tuple[RunLeft, ...]


def is_abandoned(*, now: int, heard_at: int, expires_at: int) -> bool:
    """Whether somebody has to hear that nobody works: none was heard of since `heard_at`, and a result may be gone
    from `expires_at` on.
    """
    silent_us = now - heard_at
    return GRACE_US <= silent_us <= FORGOTTEN_US and expires_at - now <= EXPIRING_US


def is_new_episode(*, told_at: int | None, heard_at: int) -> bool:
    """Whether somebody has worked since that was told, so that it is another time that nobody does."""
    return told_at is None or heard_at - told_at >= SAME_US


def tellings(left: Sequence[RunLeft], asking: Collection[str]) -> list[Telling]:
    """Who is told of these runs, each once: those whom they name themselves, and the targets `asking`, of all."""
    found: dict[tuple[str, str], list[RunLeft]] = {(target, ""): list(left) for target in sorted(asking) if left}
    for each in left:
        for key in _receivers(each):
            runs = found.setdefault(key, [])
            if each not in runs:
                runs.append(each)
    return [Telling(target, tuple(runs)) for (target, _), runs in found.items()]


def _receivers(left: RunLeft) -> Iterable[tuple[str, str]]:
    """The targets that it names, each with what is written out in the place of one."""
    of_run = written_out(left.notify) or ""
    yield from _wanting(receivers_of_run(left.notify), of_run)
    if left.stage is not None:
        of_pipeline = f"pipeline {left.stage.pipeline}"
        yield from _wanting(receivers_of_pipeline(left.stage.notify), of_pipeline)


def _wanting(receivers: Iterable[Receiver], address: str) -> Iterable[tuple[str, str]]:
    for target in receivers_for(receivers, RunNews.ABANDONED):
        yield target, address if target == WRITTEN_OUT else ""


# --- what is said


class _Abandoned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    run: str = ""
    flow: str = ""
    more: int = 0
    """So many other runs are left with it."""

    why: str
    waiting: int
    expires: str
    """From then on results may be gone."""

    rows: int
    succeeded: int
    failed: int
    cancelled: int
    unfinished: int
    spent: float | None = None
    budget: float | None = None
    kinds: tuple[FailureSample, ...] = ()
    commands: tuple[Suggestion, ...]


class _Message(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    timestamp: str
    data: _Abandoned


def abandoned_message(
    runs: Sequence[RunLeft],
    jobs: Mapping[str, int],
    *,
    why: str,
    expires_at: int,
    at: int,
    figures: MessageFigures,
) -> bytes:
    """The message that nobody collects the results of these runs, the first of which is named: JSON. `jobs` are those
    of all of them by state, `figures` their sums.
    """
    first = runs[0]
    stage = first.stage
    is_alone = len(runs) == 1 and stage is None
    data = _Abandoned(
        run=first.name if stage is None else "",
        flow="" if stage is None else stage.flow_name,
        more=len(runs) - 1,
        why=why.partition("\n")[0][:WHY_CHARS_MAX],
        waiting=sum(run.waiting for run in runs),
        expires=iso(expires_at),
        rows=sum(jobs.values()),
        succeeded=jobs.get(State.SUCCEEDED, 0),
        failed=jobs.get(State.FAILED, 0),
        cancelled=jobs.get(State.CANCELLED, 0),
        unfinished=unfinished(jobs),
        spent=spent_shown(figures),
        budget=figures.budget,
        kinds=kinds_shown(figures),
        commands=(Suggestion(NextStep.RESUME_RUN, first.name) if is_alone else Suggestion(NextStep.SERVE),),
    )
    of = "run" if stage is None else "flow"
    return msgspec.json.encode(_Message(type=f"{of}.{RunNews.ABANDONED}", timestamp=iso(at), data=data))
