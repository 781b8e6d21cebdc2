"""`orchestrator results`."""

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.flags import also
from orchestrator.cli.framework.pipe_guard import while_read
from orchestrator.cli.framework.requests import ledger_of
from orchestrator.cli.framework.runner import Work, carry_out
from orchestrator.cli.output import streams
from orchestrator.errors import UsageError
from orchestrator.settings import command_settings, output_settings, request_settings
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.requests import ResultsRequest
from orchestrator.settings.sources import Choices
from orchestrator.settings.values import ResultOrder

_WRITTEN: Final = (
    request_settings.INCLUDE,
    output_settings.OUTPUT_FORMAT,
    output_settings.FLATTEN,
    output_settings.ON_MISFIT,
    output_settings.CSV_SAFE,
)

Errors = Annotated[
    bool,
    typer.Option(
        str(request_settings.ERRORS), metavar="", help="The failed and cancelled jobs instead, as error lines."
    ),
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


def add_results(commands: typer.Typer) -> None:
    """Registers `results`."""

    @commands.command()
    @also(carry_out, **flags.flags_of(*_WRITTEN, request_settings.LEDGER, command_settings.CONFIG))
    def results(
        name: flags.OnlyRun = None,
        errors: Errors = False,
        failed: Failed = False,
        where: flags.Where = "",
        order: Order = None,
        follow: Follow = False,
        *,
        choices: Choices,
    ) -> tuple[Work, Path]:
        """Print a run's results so far, also while it runs.

        They are JSON lines in input order, unless flags say otherwise.

        Example: orchestrator results prompts > results.jsonl
        """
        if errors and failed:
            raise UsageError(f"{request_settings.ERRORS} has the failed jobs, too; give one of it and --failed")
        if follow and order is ResultOrder.INPUT:
            raise UsageError(f"--follow prints jobs as they end; {output_settings.ORDER} input is for what has ended")
        request = ResultsRequest(
            ledger=ledger_of(choices),
            name=name,
            errors=errors,
            failed=failed,
            where=where,
            order=order,
            follow=follow,
            include=choices[request_settings.INCLUDE] or (),
            writing=OutputSettings(**choices.fields(OutputSettings, _WRITTEN)),
        )
        return partial(_results, request), request.ledger


async def _results(request: ResultsRequest) -> int:
    from orchestrator.api.outcomes.result_lines import results

    count = await (_followed(request) if request.follow else results(request, streams.put_data))
    streams.flush()
    if not count:
        such = "such " if request.where else ""
        what = "failed jobs" if request.failed else "failed or cancelled jobs" if request.errors else "results"
        streams.say(f"{request.name or 'the run'} has no {such}{what}{'' if request.follow else ' yet'}")
    return 0


async def _followed(request: ResultsRequest) -> int:
    """The same, where somebody waits for each line; it ends, too, once nobody reads any more."""
    from orchestrator.api.outcomes.result_lines import results

    def put(line: bytes) -> None:
        streams.put_data(line)
        streams.flush()

    return await while_read(lambda: results(request, put))
