"""`orchestrator results`: the results of a run so far as lines, once or as they come."""

from collections.abc import Collection
from typing import Annotated, Final

import typer
from msgspec.structs import replace

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.runner import at_ledger, while_read
from orchestrator.cli.output import streams
from orchestrator.cli.output.status_texts import empty_columns_text
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.formats.output.atomic_file import NOWHERE
from orchestrator.settings import output_settings, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import ResultsRequest
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import Include, ResultOrder
from orchestrator.stores.object_url import Location

_WRITTEN: Final = (
    run_request.OUTPUT,
    run_request.INCLUDE,
    output_settings.OUTPUT_FORMAT,
    output_settings.FLATTEN,
    output_settings.ON_MISFIT,
    output_settings.CSV_SAFE,
)

Errors = Annotated[
    bool,
    typer.Option(str(run_request.ERRORS), metavar="", help="The failed and cancelled jobs instead, as error lines."),
]
Failed = Annotated[bool, typer.Option("--failed", metavar="", help="The failed jobs alone, as error lines.")]
Order = Annotated[
    ResultOrder | None,
    typer.Option(metavar="|".join(ResultOrder), help="In which order. Default: input; with --follow, completion."),
]
Follow = Annotated[
    bool,
    typer.Option("--follow", "-f", metavar="", help="Go on with what arrives, until each job has its outcome."),
]


_OUTPUT: Final = flags.flag(
    run_request.OUTPUT, "Write results, and errors beside them, to this file or URL instead, as `runs export` does."
)


SAVE_FIRST: Final = flags.flag(
    SAVE,
    "Makes files of these members of its results first, as far as they are none yet; in the ledger, too, their place is"
    " taken by what tells of them. Repeatable.",
)


@at_ledger(None, *_WRITTEN, SAVE, output=_OUTPUT, save=SAVE_FIRST)
async def results(
    name: flags.OnlyRun = None,
    errors: Errors = False,
    failed: Failed = False,
    where: flags.Where = "",
    order: Order = None,
    follow: Follow = False,
    *,
    choices: Choices,
    ledger: LedgerAddress,
) -> None:
    """Print or write a run's results so far, also while it runs.

    They are JSON lines in input order, unless flags say otherwise.

    Example: orchestrator results prompts > results.jsonl
    """
    from orchestrator.api.outcomes.result_lines import results

    if errors and failed:
        raise UsageError(f"{run_request.ERRORS} has the failed jobs, too; give one of it and --failed")
    if follow and order is ResultOrder.INPUT:
        raise UsageError(f"--follow prints jobs as they end; {output_settings.ORDER} input is for what has ended")
    if follow and choices.is_from_flag(SAVE):
        raise UsageError(f"{SAVE} makes files of what is there, and --follow prints what comes; leave out one")
    include, writing = choices[run_request.INCLUDE] or (), choices.build(OutputSettings, _WRITTEN)
    if (output := choices[run_request.OUTPUT]) is not None and choices.is_from_flag(run_request.OUTPUT):
        if errors or failed or follow:
            raise UsageError(
                f"{run_request.OUTPUT} writes results and errors, each to a file of its own; leave out"
                f" {run_request.ERRORS}, --failed and --follow"
            )
        await save_first(ledger, name, choices)
        writing = writing if order is None else replace(writing, order=order)
        await write_run_files(ledger, name, output, None, include=include, where=where, writing=writing)
        return
    await save_first(ledger, name, choices)
    request = ResultsRequest(
        ledger=ledger,
        name=name,
        errors=errors,
        failed=failed,
        where=where,
        order=order,
        follow=follow,
        include=include,
        writing=writing,
    )
    # who follows waits for each line, and it ends, too, once nobody reads any more
    count = await (
        while_read(lambda: results(request, streams.put_now)) if follow else results(request, streams.put_data)
    )
    streams.flush()
    if not count:
        what = "failed jobs" if failed else "failed or cancelled jobs" if errors else "results"
        streams.say(f"{name or 'the run'} has no {'such ' if where else ''}{what}{'' if follow else ' yet'}")


async def save_first(ledger: LedgerAddress, name: str | None, choices: Choices) -> None:
    """Makes files of members of a run's results, where its flag asks for that, and says of how many: what a file says
    is for runs. Raises as `save_outputs`.
    """
    if not choices.is_from_flag(SAVE):
        return
    from orchestrator.api.admin.saved_outputs import save_outputs

    rules = choices[SAVE]
    found = await save_outputs(ledger, name, rules or ())
    left = f"; {counted(found.unsaved, 'result')} with a member that is none" if found.unsaved else ""
    streams.say(f"files made of {counted(found.saved, 'result')}{left}")


async def write_run_files(
    ledger: LedgerAddress,
    name: str | None,
    output: Location | None,
    errors: Location | None,
    *,
    include: Collection[Include],
    where: str,
    writing: OutputSettings,
    as_json: bool = False,
) -> None:
    """Writes results and errors of a run as it stands, and says where they are. Raises as `export_run`."""
    from orchestrator.api.admin.run_export import export_run

    found = await export_run(ledger, name, output, errors, include=include, where=where, writing=writing)
    if as_json:
        streams.put_json(found)
    to_errors = f"in {found.errors}"
    if found.errors == str(NOWHERE) and errors is None:
        to_errors = f"written nowhere ({run_request.ERRORS} names a file)"
    streams.say(
        f"{found.run}: {counted(found.results, 'result')} in {found.output},"
        f" {counted(found.failures, 'error')} {to_errors}"
    )
    if found.empty_columns:
        streams.warn(empty_columns_text(found.empty_columns))
