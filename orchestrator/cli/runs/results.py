"""`orchestrator results`: the results of a run so far as lines, once or as they come."""

from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.runner import at_ledger, while_read
from orchestrator.cli.output import streams
from orchestrator.errors import UsageError
from orchestrator.settings import output_settings, run_request
from orchestrator.settings.command_requests import ResultsRequest
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import ResultOrder

_WRITTEN: Final = (
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


@at_ledger(None, *_WRITTEN)
async def results(
    name: flags.OnlyRun = None,
    errors: Errors = False,
    failed: Failed = False,
    where: flags.Where = "",
    order: Order = None,
    follow: Follow = False,
    *,
    choices: Choices,
    ledger: Path,
) -> None:
    """Print a run's results so far, also while it runs.

    They are JSON lines in input order, unless flags say otherwise.

    Example: orchestrator results prompts > results.jsonl
    """
    from orchestrator.api.outcomes.result_lines import results

    if errors and failed:
        raise UsageError(f"{run_request.ERRORS} has the failed jobs, too; give one of it and --failed")
    if follow and order is ResultOrder.INPUT:
        raise UsageError(f"--follow prints jobs as they end; {output_settings.ORDER} input is for what has ended")
    request = ResultsRequest(
        ledger=ledger,
        name=name,
        errors=errors,
        failed=failed,
        where=where,
        order=order,
        follow=follow,
        include=choices[run_request.INCLUDE] or (),
        writing=choices.build(OutputSettings, _WRITTEN),
    )
    # who follows waits for each line, and it ends, too, once nobody reads any more
    count = await (
        while_read(lambda: results(request, streams.put_now)) if follow else results(request, streams.put_data)
    )
    streams.flush()
    if not count:
        what = "failed jobs" if failed else "failed or cancelled jobs" if errors else "results"
        streams.say(f"{name or 'the run'} has no {'such ' if where else ''}{what}{'' if follow else ' yet'}")
