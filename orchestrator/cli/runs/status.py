"""`orchestrator status`, which also is `orchestrator runs list`, and `orchestrator runs show`."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.raised_workers import paid_pod_lines, raised_lines
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.cli.output import theme as palette
from orchestrator.cli.output.batch_table import batches_table
from orchestrator.cli.output.member_table import member_name, members_table, unwell_members
from orchestrator.cli.output.needs_texts import needs_line, needs_text
from orchestrator.cli.output.process_table import show_processes
from orchestrator.cli.output.status_texts import (
    COLLECTED_BY,
    KIND_CHARS_MAX,
    STATES,
    again,
    closest_call,
    executing,
    finished,
    offline,
    troubles,
    window,
)
from orchestrator.core.diagnosis.failed_executions import RetriedKind
from orchestrator.core.service.profiles import endpoint_at, with_profile
from orchestrator.core.text import wording
from orchestrator.core.text.figures import minute, percent, rate, second
from orchestrator.errors import UsageError
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.words_and_defaults import STANDARD_INPUT
from orchestrator.views.pages.needs import NeedLine
from orchestrator.views.status import LastProcess, RunsShown, RunStatus

if TYPE_CHECKING:
    from rich.console import RenderableType  # at run time `--help` would pay for it
    from rich.table import Table

SHOWN_MAX: Final = 20
"""So many runs fit on a screen or two; more are shown when asked for."""

Every = Annotated[
    bool,
    typer.Option(
        "--all",
        metavar="",
        help=f"Every run; else {SHOWN_MAX}: first those that are not finished, then the newest.",
    ),
]
SomeRun = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        autocompletion=options.run_names,
        help="The run, or the beginning of its name. Default: all of them.",
    ),
]


Needs = Annotated[
    bool,
    typer.Option("--needs", metavar="", help="Only what needs you, with its cause and what helps."),
]

Processes = Annotated[
    bool,
    typer.Option("--processes", metavar="", help="Who works on the ledger, or stands by, and what each has."),
]

_every = at_ledger("One JSON array on standard output.", tells_raised=False)


@_every
async def status(
    name: SomeRun = None,
    every: Every = False,
    needs: Needs = False,
    processes: Processes = False,
    *,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Show the runs of a ledger and how they stand.

    It can be given at any time, also while they run. The last line says how much needs you, as the first page of the
    dashboard does.

    Example: orchestrator status
    """
    if (needs or processes) and (name is not None or every or (needs and processes)):
        told = "--needs" if needs else "--processes"
        raise UsageError(f"{told} tells of all of a ledger: give no run with it, and no other flag of what to show")
    if needs:
        await _show_needs(ledger, as_json)
    elif processes:
        await _show_processes(ledger, as_json)
    else:
        await _show(name, every, ledger, as_json)


@_every
async def runs_list(every: Every = False, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show the runs of a ledger and how they stand, as `orchestrator status` does."""
    await _show(None, every, ledger, as_json)


async def _show(name: str | None, every: bool, ledger: LedgerAddress, as_json: bool) -> None:
    from orchestrator.api.inspect.status import latest, show, status
    from orchestrator.api.pages.attention import needs_of

    if as_json:
        streams.put_json(await status(ledger) if name is None else [await show(ledger, name)])
        return
    if name is None:
        shown, needs = await latest(ledger, None if every else SHOWN_MAX), await needs_of(ledger)
    else:
        shown, needs = RunsShown(runs=[await show(ledger, name)], more=0, more_jobs={}, last_process=None), ()
    if shown.runs:
        streams.put_text(status_text(shown, needs))
    else:
        streams.say(f"{ledger} has no runs yet")
        if needs:
            streams.say(needs_line(needs))


async def _show_processes(ledger: LedgerAddress, as_json: bool) -> None:
    from orchestrator.api.inspect.processes import processes

    show_processes(await processes(ledger), as_json=as_json)


async def _show_needs(ledger: LedgerAddress, as_json: bool) -> None:
    from orchestrator.api.pages.attention import needs_of

    needs = await needs_of(ledger)
    if as_json:
        streams.put_json(needs)
    elif needs:
        streams.put_text(needs_text(needs))
    else:
        streams.say("nothing needs you")


@at_ledger("One JSON object on standard output.")
async def runs_show(name: options.OnlyRun = None, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Show one run: how it stands, where it sends its jobs, and where its input came from.

    Example: orchestrator runs show prompts
    """
    from orchestrator.api.inspect.status import show

    run = await show(ledger, name)
    if as_json:
        streams.put_json(run)
    else:
        streams.put_text(run_text(run))


def _is_finished(run: RunStatus) -> bool:
    return finished(run.jobs) == run.jobs["total"]


def status_text(
    shown: RunsShown, needs: Sequence[NeedLine] = (), *, width: int | None = None, colours: bool | None = None
) -> str:
    """The runs as a table, and what else there is to say below it, also of those that are not shown; and `needs` last.

    `width` and `colours`: None for the terminal's.
    """
    from rich.text import Text

    from orchestrator.ledger.holder_text import who_and_since

    runs = shown.runs
    said = [streams.shown(_remark(run)) for run in runs]
    if shown.more:
        said.append(f"{_more(shown)}; all of them: orchestrator status --all")
    if held_by := list({who_and_since(run.held_by)[0]: run.held_by for run in runs if run.held_by}.values()):
        said.append(f"{'; '.join(held_by)} {'is' if len(held_by) == 1 else 'are'} working on this ledger")
    elif shown.last_process is not None and not all(map(_is_finished, runs)):
        said.append(streams.shown(_last(shown.last_process)))
    if shown.untold:
        said.append(
            f"{wording.counted(shown.untold, 'notification')} could not be sent; why: orchestrator schedules check"
        )
    if shown.owed:
        why = f" ({streams.shown(shown.owed_problem)})" if shown.owed_problem else ""
        said.append(f"{wording.counted(shown.owed, 'notification')} still to be sent{why}, by who works on this ledger")
    if not held_by:
        said += map(streams.shown, (*raised_lines(shown.raised_workers), *paid_pod_lines(shown.paid_pods)))
    if needs:
        said.append(streams.shown(needs_line(needs)))
    parts = _parts_of(runs[0], width) if len(runs) == 1 else ()
    return tables.drawn(
        _table(runs, width), *parts, "", *map(Text, map(streams.named, said)), width=width, colours=colours
    )


def _parts_of(run: RunStatus, width: int | None) -> "Iterator[RenderableType]":
    """A line for each member of its pool, if it has one, and for each of its batches at the service."""
    if run.members:
        yield ""
        yield members_table(run.members, width=width)
    if run.batches:
        yield ""
        yield batches_table(run.batches, width=width)


def _more(shown: RunsShown) -> str:
    jobs = shown.more_jobs
    total = sum(jobs.values())
    done = f"{wording.counted(total, 'job')}, {percent(finished(jobs), total)} done, {jobs.get('failed', 0):,} failed"
    return f"{shown.more:,} of {shown.more + len(shown.runs):,} runs are not shown ({done})"


def _last(last: LastProcess) -> str:
    """Why nobody works on the ledger any more."""
    at = f"{second(last.until)} UTC"
    if last.why is None:
        return f"the last process, {last.process}, ended without a word after {at}; it was killed, or crashed"
    return f"the last process, {last.process}, stopped at {at}: {last.why}"


def run_text(run: RunStatus, *, width: int | None = None, colours: bool | None = None) -> str:
    """Everything about one run, a line for each thing; `width` and `colours`: None for the terminal's."""
    jobs = {state: n for state, n in run.jobs.items() if n and state != "total"}
    rows = {
        "run": run.run,
        **_places(run),
        "input": ", ".join(map(_input, run.source.splitlines())),
        **({} if run.posted is None else {"posted by": run.posted.sentence}),
        "since (UTC)": minute(run.created_at),
        "jobs": f"{run.jobs['total']:,}, {percent(finished(run.jobs), run.jobs['total'])} done",
        **{f"  {state}": f"{n:,}" for state, n in jobs.items()},
        **({} if run.verdict is None else {"verdict": run.verdict.sentence}),
        "now": "; ".join(_parts(run, counted=False)) or ("nothing left to do" if _is_finished(run) else "it waits"),
        "worked on by": run.held_by or "nobody",
    }
    return tables.drawn(tables.lines(rows.items()), *_parts_of(run, width), width=width, colours=colours)


def _places(run: RunStatus) -> dict[str, str]:
    """Where it is."""
    if not run.members:
        return {"endpoint": endpoint_at(run.endpoint, run.service_url)}
    return {"pool": endpoint_at(", ".join(member_name(each.endpoint) for each in run.members), run.service_url)}


def _input(source: str) -> str:
    return "standard input" if source == STANDARD_INPUT else source


def _table(runs: Sequence[RunStatus], width: int | None) -> "Table":
    jobs = [run.jobs for run in runs]
    succeeded, failed = ([each.get(state, 0) for each in jobs] for state in ("succeeded", "failed"))
    figures = (
        tables.Figures("jobs", [f"{each['total']:,}" for each in jobs], can_go=2),
        tables.Figures("done", [percent(finished(each), each["total"]) for each in jobs]),
        tables.Figures("succeeded", [f"{n:,}" for n in succeeded], [palette.GOOD] * len(runs), can_go=3),
        tables.Figures("failed", [f"{n:,}" for n in failed], [palette.BAD if n else "dim" for n in failed], can_go=1),
        tables.Figures("since (UTC)", [minute(run.created_at) for run in runs], is_right=False, can_go=4),
    )
    return tables.of_names("run", [run.run for run in runs], figures, width=width)


def _remark(run: RunStatus) -> str:
    """What the table has no room for."""
    where = f"the {wording.counted(len(run.members), 'member')} of its pool" if run.members else run.endpoint
    at = with_profile(f"{run.run} at {where}", run.service_url)
    return f"{at}: {'; '.join(_parts(run)) or 'nothing left to do'}"


def _kinds(retried: Sequence[RetriedKind]) -> str:
    """What most of the executions said that were tried again."""
    return ", ".join(
        f"{wording.shortened(kind.sample, KIND_CHARS_MAX) or kind.class_} ({kind.count:,})" for kind in retried
    )


def _end(run: RunStatus) -> list[str]:
    """When it will be over, where something tells."""
    if run.verdict is None or run.verdict.eta_at is None:
        return []
    late = ", too late for finish-by" if run.verdict.is_late else ""
    return [f"done about {minute(run.verdict.eta_at)} UTC{late}"]


def _hindrances(run: RunStatus) -> list[str]:
    """What is in its way."""
    if _is_finished(run):
        return [] if run.finding is None else [run.finding]
    held_up = run.finding or run.held_up
    return [*([] if held_up is None else [held_up]), *unwell_members(run.members)]


def _parts(run: RunStatus, *, counted: bool = True) -> list[str]:
    """What there is to say of a run; `counted`: with its jobs in each state."""
    jobs, uncertain = run.jobs, run.uncertain
    parts = _hindrances(run)
    if counted:
        parts += [f"{jobs[state]:,} {state}" for state in (*STATES[:4], "cancelled") if jobs.get(state)]
    if run.jobs_per_s is not None and finished(jobs) < jobs["total"]:
        parts.append(rate(run.jobs_per_s))
    parts += _end(run)
    if run.window_used is not None and run.window_allowed is not None:
        parts.append(window(run.window_used, run.window_allowed, run.window_s, run.throttled or 0))
    if uncertain.seen:
        parts.append(
            f"{uncertain.seen:,} were uncertain ({uncertain.adopted:,} adopted, {uncertain.resubmitted:,} resubmitted)"
        )
    if run.lost:
        parts.append(f"{run.lost:,} lost")
    if run.expired:
        parts.append(f"{run.expired:,} expired")
    if run.no_news:
        parts.append(f"{wording.counted(run.no_news, 'answer')} without news")
    parts += [each for each in executing(run) if counted or each != run.batches_stand]  # the verdict says that
    parts += troubles(run)
    if run.largest_retried:
        parts.append(f"tried again after: {_kinds(run.largest_retried)}")
    if run.collected_by is not None and finished(jobs) < jobs["total"]:
        parts.append(f"collected {COLLECTED_BY[run.collected_by]}")
    parts += (again if run.collected_by is None else offline)(run.safe_offline_s)
    parts += (f"closest call: {text}" for text in closest_call(run.margin_s.min))
    return parts
