"""The command line: `orchestrator`. One module for each noun; it prints and sets exit codes, and decides nothing.

Rules: standard output carries data only, standard error everything for people. What is slow to import (the program
itself, AnyIO, Rich) is imported by the command that needs it, so that `--help` and completion answer at once.
"""

import gc
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from orchestrator import __version__
from orchestrator.cli.account import add_account
from orchestrator.cli.framework.help import tidy
from orchestrator.cli.framework.runner import explain
from orchestrator.cli.output import streams
from orchestrator.cli.pipelines.apply import add_apply
from orchestrator.cli.pipelines.flows import add_flows
from orchestrator.cli.pipelines.schedules import add_schedules
from orchestrator.cli.pipelines.serve import add_serve
from orchestrator.cli.pipelines.tick import add_tick
from orchestrator.cli.pipelines.trigger import add_trigger
from orchestrator.cli.runs.brakes import add_brakes
from orchestrator.cli.runs.control import add_control
from orchestrator.cli.runs.jobs import add_jobs
from orchestrator.cli.runs.limits import add_limits
from orchestrator.cli.runs.plan import add_plan
from orchestrator.cli.runs.progress import add_progress
from orchestrator.cli.runs.results import add_results
from orchestrator.cli.runs.retry import add_retry
from orchestrator.cli.runs.run import add_resume, add_run
from orchestrator.cli.runs.runs import add_runs
from orchestrator.cli.runs.status import add_status
from orchestrator.cli.runs.verify import add_verify
from orchestrator.cli.runs.watch import add_watch
from orchestrator.cli.service.commands import add_api
from orchestrator.cli.service.doctor import add_doctor
from orchestrator.cli.service.emulate import add_emulate
from orchestrator.cli.service.ledger import add_ledger
from orchestrator.cli.service.stop import add_stop
from orchestrator.settings import run_flags

EPILOG = (
    f"Try it without an account: orchestrator run INPUT {run_flags.ENDPOINT} local:FILE.py:FUNCTION."
    " Exit codes: 0 all succeeded, 1 some did not, 2 wrong usage or input, 3 stopped, 4 busy: another process"
    " works on it, 70 a defect, 129, 130 or 143 interrupted."
)


class _Commands(TyperGroup):
    """The group of all commands; what is wrong with a command line is told like every other error."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command that the arguments name, and exits."""
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except typer.TyperException as error:
            if message := error.format_message().strip():  # empty where the help was shown instead
                streams.complain(f"{message}{_hint(error)}")
            code = error.exit_code
        except Exception as error:  # noqa: BLE001  outside of a command's own guard: all that is left is to tell
            code = explain(error)
        sys.exit(code or 0)


def _hint(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"\nsee: {context.command_path} --help" if context is not None else ""


def build() -> typer.Typer:
    """The whole command line."""
    commands = typer.Typer(
        name="orchestrator",
        cls=_Commands,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        epilog=EPILOG,
    )

    @commands.callback()
    def orchestrator(
        version: Annotated[
            bool,
            typer.Option("--version", metavar="", help="Print the version.", is_eager=True, callback=_print_version),
        ] = False,
    ) -> None:
        """Run large batches on serverless GPU endpoints: each job sent once, collected before its result expires."""

    working = (add_run, add_plan, add_resume, add_serve, add_tick, add_trigger)
    of_ledgers = (
        add_apply,
        add_schedules,
        add_flows,
        add_status,
        add_runs,
        add_jobs,
        add_results,
        add_watch,
        add_progress,
        add_verify,
        add_control,
        add_stop,
        add_retry,
        add_limits,
        add_brakes,
        add_ledger,
    )
    for add in (*working, *of_ledgers, add_doctor, add_emulate, add_api):
        add(commands)
    add_account(commands)
    tidy(commands)
    return commands


def _print_version(wanted: bool) -> None:
    if wanted:
        streams.put(f"orchestrator {__version__}\n".encode())
        raise typer.Exit


@cache
def program() -> Callable[..., object]:
    """The command line of the real program, with what Typer makes of it, which takes it a while."""
    return get_command(build())


def main() -> None:
    """The entry point."""
    gc.disable()  # what is loaded before a command begins is no garbage; `execution` enables it again
    streams.open_streams()
    try:
        program()()
    except SystemExit as end:
        streams.leave(end.code if isinstance(end.code, int) else 0)
