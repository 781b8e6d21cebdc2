"""`orchestrator plan`, and what `run --dry-run` shows: how a run would go."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import TYPE_CHECKING, Final

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.endpoint_names import with_endpoint_id
from orchestrator.cli.framework.flags_to_requests import request_of_run, warnings
from orchestrator.cli.framework.runner import INTERRUPTED_EXIT_CODE, execute, understood
from orchestrator.cli.output import streams, tables
from orchestrator.cli.output.consoles import console_for_stderr
from orchestrator.cli.output.member_table import exactly, have_lanes, member_name
from orchestrator.core.planning.plan_judgement import about
from orchestrator.core.planning.plan_types import MemberPlan, Plan
from orchestrator.core.pools.member import Prefer
from orchestrator.core.text.figures import money
from orchestrator.core.text.wording import counted
from orchestrator.errors import StoppedError
from orchestrator.settings import command_flags, output_settings, run_request, run_settings
from orchestrator.settings.command_requests import (
    EXECUTION_TIME,
    FIGURES_OF_PLAN,
    PROBE,
    PlanFigures,
    PlanRequest,
)
from orchestrator.settings.sources import Choices
from orchestrator.settings.tables.pod_templates import PRICE_PER_HOUR
from orchestrator.units import KIB, MIB, SECOND_US

if TYPE_CHECKING:
    from rich.table import Table  # at run time `--help` would pay for it

_NOT_OF_PLAN: Final = {
    *(
        run_request.OUTPUT,
        run_request.ERRORS,
        run_request.INCLUDE,
        *output_settings.OUTPUTS,
        run_request.OVERWRITE,
        run_request.FRESH_START,
    ),
    *(
        run_request.RETRY_FAILED,
        command_flags.DRY_RUN,
        command_flags.DETACH,
        run_request.LOG_FILE,
        run_request.LOG_FORMAT,
        command_flags.QUIET,
    ),
}

_PREFERS: Final = {
    Prefer.FAST: "fast: a job goes where it is expected to end soonest",
    Prefer.CHEAP: "cheap: what would wait too long at one goes to the next",
}

_OF_RUN: Final = tuple(setting for setting in command_flags.RUN if setting not in _NOT_OF_PLAN)
"""What `run` takes of that which changes how it goes."""

INFEASIBLE_EXIT_CODE = 1
"""Something that was asked for cannot be kept."""


def _carry_out(flags: options.Flags, prepare: Callable[[Choices], PlanRequest]) -> None:
    request, _, as_json, _ = understood(with_endpoint_id(flags), prepare)
    for line in warnings(request.run):
        streams.warn(line)
    raise typer.Exit(carry_out_plan(request, as_json=as_json))


@options.also(_carry_out, **options.flags_of(*FIGURES_OF_PLAN, *_OF_RUN))
def plan(sources: options.Sources, *, choices: Choices) -> PlanRequest:
    """Say when a run would end, and what it would cost, before it is sent.

    It tells what binds, too, and what would help. Nothing is sent but by --probe.

    Examples:
        orchestrator plan prompts.jsonl --endpoint abc123 --execution-time 45s --workers 10
        orchestrator plan prompts.jsonl --endpoint abc123 --probe 20 --price-per-second 0.0004
    """
    return PlanRequest(
        run=request_of_run(sources, choices, os.environ),
        figures=choices.build(PlanFigures),
        **choices.fields(PlanRequest),
    )


def carry_out_plan(request: PlanRequest, *, as_json: bool) -> int:
    """Makes the plan and shows it; returns the exit code."""
    return execute(partial(_plan, request, as_json), ledger=request.run.ledger)


async def _plan(request: PlanRequest, as_json: bool) -> int:
    from orchestrator.api.planning.plan import plan
    from orchestrator.cli.framework.signals import stop_on_signals

    console = console_for_stderr(quiet=as_json)
    with redirect_stdout(sys.stderr):  # what a function of the user's prints must not end up among our data
        async with stop_on_signals(console) as stop:
            try:
                found = await plan(request, console, stop=stop)
            except StoppedError:
                if stop.is_set():
                    return INTERRUPTED_EXIT_CODE
                raise
    return show_plan(found, as_json=as_json)


def show_plan(found: Plan, *, as_json: bool) -> int:
    """Prints a plan; returns the exit code."""
    if as_json:
        streams.put_json(found)
    else:
        tables.put_lines(list(plan_lines(found)), has_heading=True)
        if found.members:
            tables.put_parts("", member_shares(found.members))
    return 0 if found.is_feasible else INFEASIBLE_EXIT_CODE


def plan_lines(found: Plan) -> Iterator[str]:
    """A plan for people; the first line is the verdict."""
    yield found.verdict
    yield f"  input: {_input(found)}"
    if found.prefer is not None:
        yield f"  pool: {counted(len(found.members), 'member')}, {_PREFERS[found.prefer]}"
    if found.pods is not None:
        ready = f"ready in about {_for(found.pods.start_s)}, {found.pods.start_from}"
        yield f"  pods: {found.pods.count:,} of {found.pods.template}, {ready}"
    yield f"  an execution: {_execution(found)}"
    if found.chunk_rows is not None:
        yield f"  chunks: of {counted(found.chunk_rows, 'row')}, each one job of the service"
    where = f", {found.workers_from}" if found.workers_from else ""
    yield f"  workers: {'not known' if found.workers is None else f'{found.workers:,}{where}'}"
    bound = f"{found.bound_by}, at {found.jobs_per_s:.3g} jobs/s"
    yield f"  speed: {bound}{'' if found.finish_s is not None else ', of what is known'}"
    yield f"  sent: within {_for(found.submit_s)}"
    if found.finish_s is not None and found.finish_best_s is not None and found.finish_worst_s is not None:
        yield f"  done: in {_for(found.finish_s)} ({_for(found.finish_best_s)} to {_for(found.finish_worst_s)})"
    if found.executing_s is not None:
        yield f"  workers at work: {_for(found.executing_s)} in all"
    yield from _cost(found)
    if found.batch is not None:
        yield from (f"  {each}" for each in found.batch.lines)
    yield from (f"  cannot be kept: {each}" for each in found.refused)
    yield from (f"  doubtful: {each}" for each in found.doubtful)
    yield from (f"  would help: {each}" for each in found.would_help)
    if found.finish_s is None and found.would_help:
        yield f"  to find out: {PROBE} 20; or give {EXECUTION_TIME} and {run_settings.WORKERS}"


def member_shares(members: Sequence[MemberPlan], width: int | None = None) -> "Table":
    """What each member of a pool does, a line for each; `width`: None for the terminal's."""

    def column(heading: str, cell: Callable[[MemberPlan], str | None], can_go: int = 0) -> tables.Figures:
        return tables.Figures(heading, [cell(each) or "-" for each in members], can_go=can_go)

    lanes = (tables.Figures("via", [each.via for each in members], is_right=False),) if have_lanes(members) else ()
    figures = (
        *lanes,
        column("jobs", lambda each: f"{each.jobs:,}"),
        column("share", lambda each: f"{each.share:.0%}"),
        column("jobs/s", lambda each: None if each.jobs_per_s is None else f"{each.jobs_per_s:.3g}"),
        column("execution", lambda each: None if each.execution_s is None else exactly(each.execution_s), can_go=1),
        column("workers", lambda each: None if each.workers is None else f"{each.workers:,}", can_go=3),
        column("done in", lambda each: None if each.finish_s is None else _for(each.finish_s), can_go=2),
        column("price/s", lambda each: None if each.price_per_s is None else money(each.price_per_s), can_go=4),
        column("cost", lambda each: None if each.cost is None else money(each.cost)),
    )
    return tables.of_names("member", [member_name(each.endpoint) for each in members], figures, width=width)


def _input(found: Plan) -> str:
    parts = [counted(found.rows, "row"), _size(found.input_bytes)]
    if found.done:
        parts.append(f"{found.done:,} done already")
    if found.repeats:
        parts.append(f"{found.repeats:,} repeat others")
    if found.oversize:
        parts.append(f"{found.oversize:,} too large")
    return ", ".join(parts)


def _execution(found: Plan) -> str:
    if found.execution_s is None or found.executions_per_job is None:
        return "nothing is known of how long it takes here"
    said = f"about {_for(found.execution_s)}"
    if not found.executions_known:
        return f"{said}, as given"
    again = f", {found.executions_per_job:.2f} for each job" if found.executions_per_job > 1 else ""
    return f"{said}{again}, by {counted(found.executions_known, 'execution')} ({found.known_from})"


def _cost(found: Plan) -> Iterator[str]:
    cost = found.cost
    if cost is None:
        if found.executing_s is not None:
            yield f"  cost: not known; {_priced_by(found)}"
        return
    parts = ((cost.starting, "the start" if found.pods else "workers that start"), (cost.idle, "workers that wait"))
    shares = [f"{money(part)} for {what}" for part, what in parts if part]
    of_it = f", of it {' and '.join(shares)}" if shares else ""
    yield f"  cost: {money(cost.likely)} ({money(cost.best)} to {money(cost.worst)}){of_it}"
    if found.pods is not None and found.pods.price_per_hour is not None:
        yield f"  price: {money(found.pods.price_per_hour)} for an hour of a pod, {cost.price_from}"
    else:
        yield f"  price: {money(cost.price_per_s)} for a second of a worker, {cost.price_from}"
    yield f"  not in it: {'; '.join(cost.not_included)}"


def _priced_by(found: Plan) -> str:
    if found.pods is None:
        return f"{run_settings.PRICE_PER_SECOND} says what a second costs"
    return f"{PRICE_PER_HOUR.key} in [pod-templates.{found.pods.template}] says what an hour of a pod costs"


def _for(seconds: float) -> str:
    return about(seconds * SECOND_US)


def _size(number: int) -> str:
    for unit, name in ((MIB * KIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if number >= unit:
            return f"{number / unit:.1f} {name}"
    return counted(number, "byte")
