"""`orchestrator runs`: the runs of a ledger, and what can be done with one."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.framework.flags import also
from orchestrator.cli.framework.requests import ledger_of, serve_request
from orchestrator.cli.framework.runner import AtLedger, Work, carry_out, carry_out_at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.output.formats import empty_columns_text, finished
from orchestrator.cli.runs.control import add_control, add_resend, unfinished_text
from orchestrator.cli.runs.retry import add_retry
from orchestrator.cli.runs.revalidate import add_recheck
from orchestrator.cli.runs.status import JsonOfOne, add_list_and_show
from orchestrator.core.text.wording import counted
from orchestrator.formats.output.atomic_file import NOWHERE
from orchestrator.settings import command_settings, output_settings, request_settings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.requests import ServeRequest
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from orchestrator.engine.hosting.worker_scaling import PutBack  # at run time `--help` would pay for it

_WRITTEN: Final[command_settings.Settings] = (
    request_settings.OUTPUT,
    request_settings.ERRORS,
    request_settings.INCLUDE,
    *output_settings.OUTPUTS,
)

LEFT_EXIT_CODE: Final = 1
"""Something could not be put back."""

Output = Annotated[
    str | None,
    options.option(
        request_settings.OUTPUT,
        "Where the results are written. Default: where the run has them, if it has them anywhere.",
    ),
]
NewName = Annotated[str, typer.Argument(metavar="NEW", help="The new name, which no other run of the ledger has.")]


def add_runs(commands: typer.Typer) -> None:
    """Registers `runs` and its verbs."""
    runs = typer.Typer(
        cls=NounGroup,
        rich_markup_mode="rich",
        help="The runs of a ledger. Without a verb they are listed.\n\nA run is named by its name, or by as much of it"
        " as no other run begins with.",
    )
    commands.add_typer(runs, name="runs")
    add_list_and_show(runs)
    add_control(runs, of_runs=True)
    add_recheck(runs)
    add_resend(runs)
    add_retry(runs, hidden=True)
    _add_keeping(runs)
    _add_tidy(runs)


def _add_keeping(runs: typer.Typer) -> None:
    flags = options.flags_of(request_settings.LEDGER, command_settings.CONFIG)

    @runs.command()
    @also(carry_out_at_ledger, **flags, json=JsonOfOne)
    def rename(name: options.RunName, to: NewName) -> AtLedger:
        """Give a run another name; whoever serves it goes on.

        Example: orchestrator runs rename prompts captions
        """
        return partial(_rename, name, to)

    @runs.command()
    @also(carry_out_at_ledger, **flags, json=JsonOfOne)
    def delete(name: options.RunName, yes: Yes = False) -> AtLedger:
        """Delete a run with its inputs and results, once nothing of it is at the service.

        Example: orchestrator runs delete prompts
        """
        return partial(_delete, name, yes)

    @runs.command()
    @also(carry_out, **{**options.flags_of(*_WRITTEN), "output": Output}, **flags, json=JsonOfOne)
    def export(name: options.OnlyRun = None, where: options.Where = "", *, choices: Choices) -> tuple[Work, Path]:
        """Write a run's results and errors to files as it stands, also while it runs: all, or those of a filter.

        Example: orchestrator runs export prompts --output results.jsonl
        """
        return partial(_export, name, where, choices), ledger_of(choices)


def _add_tidy(runs: typer.Typer) -> None:
    @runs.command()
    @also(carry_out, **options.flags_of(*command_settings.TIDY), json=JsonOfOne)
    def tidy(*, choices: Choices) -> tuple[Work, Path]:
        """Put back what killed processes have left changed for their runs: how many workers endpoints may have.

        Example: orchestrator runs tidy
        """
        request = serve_request(choices, os.environ, key_needed=False)
        return partial(_tidy, request, choices.is_on(command_settings.JSON)), request.ledger


async def _tidy(request: ServeRequest, as_json: bool) -> int:
    from orchestrator.api.admin.tidy import tidy

    return show_restored(await tidy(request), as_json=as_json)


def show_restored(found: "Sequence[PutBack]", *, as_json: bool) -> int:
    """Prints what was put back; returns the exit code."""
    if as_json:
        streams.put_json(found)
    for each in found:
        (streams.say if each.is_put_back else streams.warn)(f"{each.endpoint}: {each.told}")
    if not found:
        streams.say("there is nothing to put back")
    return 0 if all(each.is_put_back for each in found) else LEFT_EXIT_CODE


async def _rename(name: str, to: str, ledger: Path, as_json: bool) -> int:
    from orchestrator.api.admin.run_admin import rename

    found = await rename(ledger, name, to)
    if as_json:
        streams.put_json(found)
    streams.say(f"{found.was} is called {found.run}")
    return 0


async def _delete(name: str, yes: bool, ledger: Path, as_json: bool) -> int:
    from orchestrator.api.admin.run_admin import delete
    from orchestrator.api.inspect.status import show

    run = await show(ledger, name)
    more = "" if finished(run.jobs) == run.jobs["total"] else f"; {unfinished_text(run.jobs)}"
    confirm(f"delete {run.run}: {counted(run.jobs['total'], 'job')} with inputs and results{more}?", yes=yes)
    found = await delete(ledger, run.run)
    if as_json:
        streams.put_json(found)
    streams.say(f"{found.run} is deleted, with {counted(found.jobs, 'job')}")
    return 0


async def _export(name: str | None, where: str, choices: Choices) -> int:
    from orchestrator.api.admin.run_admin import export_run

    output, errors, include = (
        choices[request_settings.OUTPUT],
        choices[request_settings.ERRORS],
        choices[request_settings.INCLUDE],
    )
    writing = OutputSettings(**choices.fields(OutputSettings, _WRITTEN))
    found = await export_run(
        ledger_of(choices), name, output, errors, include=include or (), where=where, writing=writing
    )
    if choices.is_on(command_settings.JSON):
        streams.put_json(found)
    to_errors = f"in {found.errors}"
    if found.errors == str(NOWHERE) and errors is None:
        to_errors = f"written nowhere ({request_settings.ERRORS} names a file)"
    streams.say(
        f"{found.run}: {counted(found.results, 'result')} in {found.output},"
        f" {counted(found.failures, 'error')} {to_errors}"
    )
    if found.empty_columns:
        streams.warn(empty_columns_text(found.empty_columns))
    return 0
