"""`orchestrator results`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator import declared, declared_outputs
from orchestrator.api.config import Choices
from orchestrator.cli import options, printing
from orchestrator.cli.execution import App, Work, carry_out
from orchestrator.cli.options import also
from orchestrator.cli.reading import while_read
from orchestrator.cli.request import ledger_of
from orchestrator.errors import UsageError
from orchestrator.settings import OutputSettings, ResultOrder, ResultsRequest

_WRITTEN: Final = (
    declared.INCLUDE,
    declared_outputs.OUTPUT_FORMAT,
    declared_outputs.FLATTEN,
    declared_outputs.ON_MISFIT,
    declared_outputs.CSV_SAFE,
)

Errors = Annotated[
    bool, typer.Option(str(declared.ERRORS), metavar="", help="The failed and cancelled jobs instead, as error lines.")
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


def add_results(commands: typer.Typer, load: Callable[[], App]) -> None:
    """Registers `results`."""

    @commands.command()
    @also(carry_out, **options.flags_of(*_WRITTEN, declared.LEDGER, declared.CONFIG))
    def results(
        name: options.OnlyRun = None,
        errors: Errors = False,
        failed: Failed = False,
        where: options.Where = "",
        order: Order = None,
        follow: Follow = False,
        *,
        choices: Choices,
    ) -> tuple[Work, Path]:
        """Print a run's results so far, as JSON lines in input order or otherwise; at any time, also while it runs."""
        if errors and failed:
            raise UsageError(f"{declared.ERRORS} has the failed jobs, too; give one of it and --failed")
        if follow and order is ResultOrder.INPUT:
            raise UsageError(f"--follow prints jobs as they end; {declared_outputs.ORDER} input is for what has ended")
        request = ResultsRequest(
            ledger=ledger_of(choices),
            name=name,
            errors=errors,
            failed=failed,
            where=where,
            order=order,
            follow=follow,
            include=choices[declared.INCLUDE] or (),
            writing=OutputSettings(**choices.fields(OutputSettings, _WRITTEN)),
        )
        return partial(_results, load, request), request.ledger


async def _results(load: Callable[[], App], request: ResultsRequest) -> int:
    count = await (_followed(load, request) if request.follow else load().results(request, printing.put_data))
    printing.flush()
    if not count:
        such = "such " if request.where else ""
        what = "failed jobs" if request.failed else "failed or cancelled jobs" if request.errors else "results"
        printing.say(f"{request.name or 'the run'} has no {such}{what}{'' if request.follow else ' yet'}")
    return 0


async def _followed(load: Callable[[], App], request: ResultsRequest) -> int:
    """The same, where somebody waits for each line; it ends, too, once nobody reads any more."""

    def put(line: bytes) -> None:
        printing.put_data(line)
        printing.flush()

    return await while_read(lambda: load().results(request, put))
