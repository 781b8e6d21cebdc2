"""What a run came to, in a few lines."""

from collections.abc import Iterator
from typing import Final

from orchestrator.api.runs.next_command import failures_command, results_command, retry_command
from orchestrator.cli.output.member_table import exactly, have_lanes, member_name
from orchestrator.cli.output.status_texts import (
    ENDED,
    STATES,
    again,
    attempts_failed,
    closest_call,
    empty_columns_text,
    finished,
    kind_line,
    stuck_text,
)
from orchestrator.core.text.figures import lasting, money, percent, rate
from orchestrator.core.text.wording import counted, shortened
from orchestrator.formats.output.atomic_file import NOWHERE
from orchestrator.settings import run_request
from orchestrator.settings.run_request import RunRequest
from orchestrator.views.status import Snapshot, Summary

SECONDS_MIN: Final = 0.05
"""Nothing can be said about the speed of what took less."""


def summary_lines(summary: Summary, request: RunRequest, first: Snapshot | None) -> list[str]:
    """A headline and aligned figures; `first` is how things stood when this process began."""
    rows = [
        *_counts(summary),
        *_empty(summary),
        *_trouble(summary),
        *_effort(summary, first),
        *_files(summary, request),
    ]
    width = max(len(label) for label, _ in rows)
    return [
        _headline(summary),
        *(f"  {label:<{width}}  {value}" for label, value in rows),
        *_members(summary),
        *_retried(summary),
        *_failures(summary, request),
    ]


def _members(summary: Summary) -> Iterator[str]:
    """What each member of its pool has done: which part, how fast, and for how much."""
    if not summary.members:
        return
    yield "by member:"
    whole = sum(each.done for each in summary.members)
    names, has_lanes = [member_name(each.endpoint) for each in summary.members], have_lanes(summary.members)
    width, of_done = max(map(len, names)), max(len(f"{each.done:,}") for each in summary.members)
    for name, each in zip(names, summary.members, strict=True):
        parts = [f"{each.done:>{of_done},} done", f"{percent(each.done, whole):>5}"]
        if has_lanes:
            parts.append(f"by {each.via}")
        if each.failed:
            parts.append(f"{each.failed:,} failed")
        if each.outstanding:
            parts.append(f"{each.outstanding:,} outstanding")
        if each.execution_s is not None:
            parts.append(f"{exactly(each.execution_s)} each")
        if each.cost is not None:
            parts.append(f"cost {money(each.cost)}")
        if each.state is not None and each.why is not None:
            parts.append(f"{each.state}: {each.why}")
        yield f"  {name:<{width}}  {', '.join(parts)}"


def _retried(summary: Summary) -> Iterator[str]:
    """The largest kinds of executions that failed and were tried again."""
    if summary.largest_retried:
        yield "failed and tried again:"
        width = len(f"{summary.largest_retried[0].count:,}")
        for kind in summary.largest_retried:
            yield f"  {kind.count:>{width},}  {kind_line(kind)}"


SAMPLE_CHARS_MAX: Final = 60
"""So much of what a failure says fits a line of a terminal."""


def _failures(summary: Summary, request: RunRequest) -> Iterator[str]:
    """The largest kinds of failures, and the commands to look further and to try again."""
    failed, kinds = summary.jobs.get("failed", 0), summary.failure_kinds
    if not failed or not kinds:
        return
    yield f"{failed:,} failed, in {counted(kinds, 'kind')}:"
    width = len(f"{summary.largest_failures[0].count:,}")
    for kind in summary.largest_failures:
        yield f"  {kind.count:>{width},}  {shortened(kind.sample or kind.class_, SAMPLE_CHARS_MAX)}"
    if kinds > len(summary.largest_failures):
        yield f"  {'':>{width}}  and {counted(kinds - len(summary.largest_failures), 'other kind')}"
    yield f"see: {failures_command(summary.run, request)}"
    if not summary.interrupted:
        yield f"again: {retry_command(summary.run, request)}"


def _headline(summary: Summary) -> str:
    jobs, done = summary.jobs, finished(summary.jobs)
    of = counted(jobs["total"], "job")
    if summary.interrupted:
        return f"{summary.run}: interrupted; {done:,} of {of} finished"
    if jobs["succeeded"] == jobs["total"]:
        return f"{summary.run}: finished; {'its job' if jobs['total'] == 1 else f'all {of}'} succeeded"
    if done == jobs["total"]:
        return f"{summary.run}: finished; {jobs['succeeded']:,} of {of} succeeded"
    return f"{summary.run}: stopped; {done:,} of {of} finished"


def _counts(summary: Summary) -> Iterator[tuple[str, str]]:
    shown = [state for state in (*ENDED, *STATES[: -len(ENDED)]) if summary.jobs.get(state) or state == "succeeded"]
    width = max(len(f"{summary.jobs.get(state, 0):,}") for state in shown)
    for state in shown:
        # The row below is about submissions; this one about jobs whose fate is open.
        label = "not settled" if state == "uncertain" else state
        yield label, f"{summary.jobs.get(state, 0):>{width},}"


def _empty(summary: Summary) -> Iterator[tuple[str, str]]:
    if summary.all_empty:
        advice = "<setting require-output> takes such jobs for failed, <setting stream> gathers what a worker yields"
        yield "empty", f"no result has anything in it: {advice}"
    elif summary.empty_columns:
        yield "empty", empty_columns_text(summary.empty_columns)


def _trouble(summary: Summary) -> Iterator[tuple[str, str]]:
    uncertain = summary.uncertain
    if uncertain.seen:
        yield "uncertain", f"{uncertain.seen:,}, adopted {uncertain.adopted:,}, resubmitted {uncertain.resubmitted:,}"
    if summary.lost:
        yield "lost", f"{summary.lost:,} (the service forgot them early)"
    if summary.expired:
        yield "expired", f"{summary.expired:,} (their results were gone when they were asked for)"
    if summary.paid_twice:
        yield "paid twice", f"{summary.paid_twice:,} (they ran beside another submission of their job)"
    if summary.failed_executions:
        yield "attempts", attempts_failed(summary.failed_executions, summary.retried_executions)
    if summary.no_news:
        told = counted(summary.no_news, "answer or webhook", "answers and webhooks")
        yield "no news", f"{told} that said nothing of their job; not believed"
    if summary.unsaved:
        yield "unsaved", f"{counted(summary.unsaved, 'result')} with a member that is no file; each says why"
    if text := stuck_text(summary.stuck):
        yield "stuck", text
    if summary.throttled:
        yield "throttled", f"{counted(summary.throttled, 'request')} answered 429"


def _effort(summary: Summary, first: Snapshot | None) -> Iterator[tuple[str, str]]:
    for text in closest_call(summary.margin_s.min):
        yield "closest call", text
    for text in again(summary.safe_offline_s):
        yield "at service", text
    sent = [f"{count:,} /{operation}" for operation, count in summary.requests.items() if count]
    if sent:
        yield "requests", ", ".join(sent)
    here = finished(summary.jobs) - (finished(first.counts) if first else 0)
    speed = f", {rate(here / summary.wall_s)}" if first and here > 0 and summary.wall_s >= SECONDS_MIN else ""
    yield "took", f"{lasting(summary.wall_s)}{speed}"


def _files(summary: Summary, request: RunRequest) -> Iterator[tuple[str, str]]:
    failures = summary.jobs.get("failed", 0) + summary.jobs.get("cancelled", 0)
    if summary.output is not None:
        yield "results", summary.output
        if failures and summary.errors != str(NOWHERE):
            yield "errors", str(summary.errors)
            return
    else:
        yield "results", f"{results_command(summary.run, request)} > results.jsonl"
    if failures:
        yield "errors", f"{results_command(summary.run, request, run_request.ERRORS)} > errors.jsonl"
