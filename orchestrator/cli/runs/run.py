"""`orchestrator run` and `orchestrator resume`."""

import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import redirect_stdout, suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Protocol

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.crash_reports import leading_failure
from orchestrator.cli.framework.dashboard_child import DashboardChild, beside, child_of
from orchestrator.cli.framework.detach import detach
from orchestrator.cli.framework.endpoint_names import with_endpoint_id
from orchestrator.cli.framework.flags import Flags, also
from orchestrator.cli.framework.flags_to_requests import request_of_run, resume_request, warnings
from orchestrator.cli.framework.runner import INTERRUPTED_EXIT_CODE, execute, exit_if_refused, understood
from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole, console_for_stderr
from orchestrator.cli.output.summary import summary_lines
from orchestrator.cli.runs.plan import carry_out_plan
from orchestrator.settings import command_flags, run_request
from orchestrator.settings.command_requests import PlanRequest
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.sources import Choices
from orchestrator.views.status import Summary

if TYPE_CHECKING:
    from anyio import Event

SIGNAL_EXIT_CODE_BASE = 128
"""What shells add to the number of the signal that ended a program."""

FAILURES_EXIT_CODE = 1


class Run(Protocol):
    """What carries out a run."""

    def __call__(self, request: RunRequest, console: QuietConsole, *, stop: "Event") -> Awaitable[Summary]: ...


_Endpoint = Annotated[
    str | None,
    options.option(run_request.ENDPOINT, "Another endpoint, for a run of which the service never took a job."),
]


def _carry_out(flags: Flags, prepare: Callable[[Choices], RunRequest]) -> None:
    """Everything between the flags and the exit code."""
    flags = with_endpoint_id(flags, told_only="sources" not in flags)  # a resume stays where its run is
    request, choices, as_json, quiet = understood(flags, prepare)
    for line in warnings(request):
        streams.warn(line)
    if choices.is_on(command_flags.DRY_RUN):
        raise typer.Exit(carry_out_plan(PlanRequest(run=request), as_json=as_json))
    if choices.is_on(command_flags.DETACH):
        with exit_if_refused():
            raise typer.Exit(detach(request, quiet=quiet, as_json=as_json))

    async def run(request: RunRequest, console: QuietConsole, *, stop: "Event") -> Summary:
        from orchestrator.api.foreground import run

        return await run.run(request, console, stop=stop)

    child = child_of(flags, request.ledger, choices.configuration.named)
    raise typer.Exit(carry_out_run(run, request, quiet=quiet, as_json=as_json, child=child))


@also(_carry_out, **options.flags_of(*command_flags.RUN))
def run(sources: options.Sources, *, choices: Choices) -> RunRequest:
    """Run every job of INPUT and wait for its results.

    The same command again continues where it stopped, or adds what is new in the file. D is a duration: 250ms, 90s,
    30m, 24h or 7d. The API key comes from ORCHESTRATOR_API_KEY, RUNPOD_API_KEY or the variable that the profile
    names.

    Examples:
        orchestrator run prompts.jsonl --endpoint abc123 --output results.jsonl
        orchestrator run prompts.jsonl --endpoint local:handlers.py:caption
        orchestrator run 'in/*.csv' --name captions --endpoint abc123 --dry-run
    """
    return request_of_run(sources, choices, os.environ)


@also(_carry_out, endpoint=_Endpoint, **options.flags_of(*command_flags.RESUME))
def resume(name: options.RunName, *, choices: Choices) -> RunRequest:
    """Continue a run without reading its input again.

    What is queued is sent, what is outstanding is collected.

    Examples:
        orchestrator resume prompts
        orchestrator resume prompts --output results.jsonl --detach
    """
    return resume_request(name, choices, os.environ)


def carry_out_run(
    run: Run, request: RunRequest, *, quiet: bool, as_json: bool, child: DashboardChild | None = None
) -> int:
    """Has `run` carry the request out, and tells how it ended; returns the exit code. Meanwhile `child` is served."""
    console = console_for_stderr(quiet=quiet)

    def report(summary: Summary) -> None:
        if not quiet:
            opening, *lines = summary_lines(summary, request, console.first)
            streams.headline(opening)
            for line in lines:
                streams.say(line)
        if as_json:
            with suppress(streams.ReaderLeftError):  # the run's own exit code is the one to tell
                streams.put_json(summary)

    work = partial(_followed, run, request, console, report, child)
    code = execute(work, ledger=request.ledger, needs="orchestrator.api.foreground.run")
    return _signal_code(console) if code == INTERRUPTED_EXIT_CODE else code


async def _followed(
    run: Run,
    request: RunRequest,
    console: QuietConsole,
    report: Callable[[Summary], None],
    child: DashboardChild | None,
) -> int:
    """Runs it until it ends or a signal comes; whichever way it ends, what is known of it is reported."""
    try:
        with redirect_stdout(sys.stderr):  # what a function of the user's prints must not end up among our data
            from orchestrator.cli.framework.signals import stop_on_signals

            async with stop_on_signals(console) as stop, beside(child, console):
                summary = await run(request, console, stop=stop)
    except Exception as error:
        so_far = getattr(leading_failure(error), "summary", None)  # of a run that was stopped
        if isinstance(so_far, Summary):
            report(so_far)
        raise
    report(summary)
    return exit_code(summary, console)


def exit_code(summary: Summary, console: QuietConsole) -> int:
    """What the command's exit code says about the run."""
    if summary.interrupted:
        return _signal_code(console)
    return 0 if summary.jobs["succeeded"] == summary.jobs["total"] else FAILURES_EXIT_CODE


def _signal_code(console: QuietConsole) -> int:
    return INTERRUPTED_EXIT_CODE if console.signal is None else SIGNAL_EXIT_CODE_BASE + console.signal
