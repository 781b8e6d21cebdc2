"""The command line: `orchestrator`. One module for each noun; it prints and sets exit codes, and decides nothing.

Rules: standard output carries data only, standard error everything for people. What is slow to import (the program
itself, AnyIO, Rich) is imported by the command that needs it, so that `--help` and completion answer at once.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_command

from orchestrator import __version__
from orchestrator.cli.account import ACCOUNT
from orchestrator.cli.framework.command_groups import Members, register
from orchestrator.cli.framework.dashboard_child import spelled_out
from orchestrator.cli.framework.runner import explain
from orchestrator.cli.help.command_screens import front_page, install_help
from orchestrator.cli.help.help_command import add_help
from orchestrator.cli.help.mistakes import advice, what_is_wrong
from orchestrator.cli.monitoring import MONITORING
from orchestrator.cli.output import streams
from orchestrator.cli.pipelines import PIPELINES
from orchestrator.cli.runs import LOOK_AFTER_RUNS, RUN_A_BATCH, control
from orchestrator.cli.service import BEGIN, TRY_AND_REHEARSE, UPKEEP

PANELS: Final[Mapping[str, Members]] = {
    "Run a batch": {**BEGIN, **RUN_A_BATCH},
    "Look after runs": {**LOOK_AFTER_RUNS, **MONITORING},
    "Pipelines": PIPELINES,
    "The account": ACCOUNT,
    "Try, rehearse, keep up": {**TRY_AND_REHEARSE, **UPKEEP},
}
"""The commands, by the panel of the help that has them."""


class _Commands(TyperGroup):
    """The group of all commands; what is wrong with a command line is told like every other error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the arguments."""
        return list(super().parse_args(ctx, spelled_out(args)))

    def get_help(self, ctx: Any) -> str:
        """What `--help` shows."""
        return front_page(ctx, tuple(PANELS))

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command that the arguments name, and exits."""
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
        except typer.TyperException as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                streams.pass_on(f"{error.format_message()}\n".encode())
            elif message := what_is_wrong(error):
                streams.complain(f"{message}{_hint(error)}")
            code = error.exit_code
        except Exception as error:  # noqa: BLE001  outside of a command's own guard: all that is left is to tell
            code = explain(error)
        sys.exit(code or 0)


def _hint(error: typer.TyperException) -> str:
    lines = [advice(error)]
    context = getattr(error, "ctx", None)
    if context is not None:
        lines.append(f"see: {context.command_path} --help")
    return "".join(f"\n{line}" for line in lines if line)


def build() -> typer.Typer:
    """The whole command line."""
    commands = typer.Typer(
        name="orchestrator",
        cls=_Commands,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @commands.callback()
    def orchestrator(
        version: Annotated[
            bool,
            typer.Option("--version", metavar="", help="Print the version.", is_eager=True, callback=_print_version),
        ] = False,
    ) -> None:
        """Large batches on serverless GPU endpoints. Each job is sent once, and collected before its result expires."""

    for panel, members in PANELS.items():
        register(commands, members, panel)
    commands.command("continue", hidden=True)(control.unpause)
    commands.command("priority", hidden=True, context_settings=control.TAKES_NEGATIVE)(control.priority)
    add_help(commands)
    install_help(commands)
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
