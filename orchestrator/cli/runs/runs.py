"""`orchestrator runs`: the runs of a ledger, and what can be done with one."""

import os
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.command_groups import NounGroup
from orchestrator.cli.framework.flags_to_requests import serve_request
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.output.status_texts import finished
from orchestrator.cli.runs import control
from orchestrator.cli.runs.results import SAVE_FIRST, save_first, write_run_files
from orchestrator.cli.runs.retry import retry
from orchestrator.cli.runs.revalidate import recheck
from orchestrator.cli.runs.status import runs_list, runs_show
from orchestrator.core.text.wording import counted
from orchestrator.settings import command_flags, output_settings, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from orchestrator.api.admin.tidy import Tidied  # at run time `--help` would pay for it

_WRITTEN: Final[command_flags.Settings] = (
    run_request.OUTPUT,
    run_request.ERRORS,
    run_request.INCLUDE,
    *output_settings.OUTPUTS,
)

LEFT_EXIT_CODE: Final = 1
"""Something could not be put back."""

_OUTPUT: Final = options.flag(
    run_request.OUTPUT, "Where the results are written. Default: where the run has them, if it has them anywhere."
)
NewName = Annotated[str, typer.Argument(metavar="NEW", help="The new name, which no other run of the ledger has.")]


_JSON: Final = "One JSON object on standard output."

commands = typer.Typer(
    cls=NounGroup,
    rich_markup_mode="rich",
    help="The runs of a ledger. Without a verb they are listed.\n\nA run is named by its name, or by as much of it as"
    " no other run begins with.",
)
commands.command("list", hidden=True)(runs_list)
commands.command("show")(runs_show)
for _second_name in (control.pause, control.unpause, control.cancel):
    commands.command(hidden=True)(_second_name)
commands.command("continue", hidden=True)(control.unpause)
commands.command(context_settings=control.TAKES_NEGATIVE)(control.priority)
commands.command()(recheck)
commands.command()(control.resend)
commands.command(hidden=True)(retry)


@commands.command()
@at_ledger(_JSON)
async def rename(name: options.RunName, to: NewName, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Give a run another name; whoever serves it goes on.

    Example: orchestrator runs rename prompts captions
    """
    from orchestrator.api.admin.run_admin import rename

    found = await rename(ledger, name, to)
    if as_json:
        streams.put_json(found)
    streams.say(f"{found.was} is called {found.run}")


@commands.command()
@at_ledger(_JSON)
async def delete(name: options.RunName, yes: Yes = False, *, ledger: LedgerAddress, as_json: bool) -> None:
    """Delete a run with its inputs and results, once nothing of it is at the service.

    Example: orchestrator runs delete prompts
    """
    from orchestrator.api.admin.run_admin import delete
    from orchestrator.api.inspect.status import show

    run = await show(ledger, name)
    more = "" if finished(run.jobs) == run.jobs["total"] else f"; {control.unfinished_text(run.jobs)}"
    confirm(f"delete {run.run}: {counted(run.jobs['total'], 'job')} with inputs and results{more}?", yes=yes)
    found = await delete(ledger, run.run)
    if as_json:
        streams.put_json(found)
    streams.say(f"{found.run} is deleted, with {counted(found.jobs, 'job')}")


@commands.command()
@at_ledger(_JSON, *_WRITTEN, SAVE, output=_OUTPUT, save=SAVE_FIRST)
async def export(
    name: options.OnlyRun = None, where: options.Where = "", *, choices: Choices, ledger: LedgerAddress, as_json: bool
) -> None:
    """Write a run's results and errors to files as it stands, also while it runs: all, or those of a filter.

    Example: orchestrator runs export prompts --output results.jsonl
    """
    output, errors = choices[run_request.OUTPUT], choices[run_request.ERRORS]
    include = choices[run_request.INCLUDE] or ()
    writing = choices.build(OutputSettings, _WRITTEN)
    await save_first(ledger, name, choices)
    await write_run_files(ledger, name, output, errors, include=include, where=where, writing=writing, as_json=as_json)


@commands.command()
@at_ledger(_JSON, *command_flags.TIDY)
async def tidy(*, choices: Choices, as_json: bool) -> int:
    """Put back what killed processes have left of their runs: raised bounds of workers, and pods that are paid.

    Example: orchestrator runs tidy
    """
    from orchestrator.api.admin.tidy import tidy

    return show_restored(await tidy(serve_request(choices, os.environ, key_needed=False)), as_json=as_json)


def show_restored(found: "Tidied", *, as_json: bool) -> int:
    """Prints what was put back; returns the exit code."""
    if as_json:
        streams.put_json(found)
    for each in found:
        (streams.say if each.is_put_back else streams.warn)(f"{each.named}: {each.outcome}")
    if not found:
        streams.say("there is nothing to put back")
    return 0 if all(each.is_put_back for each in found) else LEFT_EXIT_CODE
