"""`orchestrator serve`: the engine of a ledger without a run of its own."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from orchestrator.cli.framework import flags as options
from orchestrator.cli.framework.flags import Flags, also
from orchestrator.cli.framework.requests import serve_request, serve_warnings
from orchestrator.cli.framework.runner import execute, understood
from orchestrator.cli.output import streams
from orchestrator.cli.output.progress_views import QuietView, view_for_stderr
from orchestrator.settings import command_settings
from orchestrator.settings.requests import ServeRequest
from orchestrator.settings.sources import Choices

Apply = Annotated[
    list[Path] | None,
    typer.Option("--apply", metavar="FILE", help="Record this pipeline's file first; may be repeated."),
]


def add_serve(commands: typer.Typer) -> None:
    """Registers `serve`."""

    @commands.command()
    @also(_carry_out, **options.flags_of(*command_settings.SERVE))
    def serve(apply: Apply = None, *, choices: Choices) -> ServeRequest:
        """Work on every run and schedule of a ledger until Ctrl-C.

        Runs that are taken in meanwhile are worked on, too.

        Example: orchestrator serve --ledger batches.db
        """
        return msgspec.structs.replace(serve_request(choices, os.environ), apply=tuple(apply or ()))


def _carry_out(flags: Flags, prepare: Callable[[Choices], ServeRequest]) -> None:
    request, _, as_json, quiet = understood(flags, prepare)
    for warning in serve_warnings(request):
        streams.warn(warning)
    work = partial(_serve, request, view_for_stderr(quiet=quiet), as_json=as_json)
    raise typer.Exit(execute(work, ledger=request.ledger, needs="orchestrator.api.foreground.serve"))


async def _serve(request: ServeRequest, view: QuietView, *, as_json: bool) -> int:
    from orchestrator.api.foreground.serve import serve
    from orchestrator.cli.framework.signals import stop_on_signals

    async with stop_on_signals(view) as stop:
        runs = await serve(request, view, stop=stop)
    if as_json:
        streams.put_json(runs)
    return 0
