"""`orchestrator help`: all of a command, or a topic; a screen at a time on a terminal."""

import os
import shutil
import sys
from difflib import get_close_matches
from typing import Annotated, Any, Final

import typer

from orchestrator.cli.help.command_screens import command_screen, group_screen
from orchestrator.cli.help.topics import TOPICS, topic_screen
from orchestrator.cli.output import streams
from orchestrator.errors import UsageError

_PAGER_DEFAULT: Final = "less -FRX"

About = Annotated[
    list[str] | None, typer.Argument(metavar="COMMAND|TOPIC", help=f"A command, or one of {', '.join(TOPICS)}.")
]


def add_help(commands: typer.Typer) -> None:
    """Registers `help`."""

    @commands.command(hidden=True)
    def help(ctx: typer.Context, about: About = None) -> None:  # noqa: A001
        """Show all flags of a command, or a page on a topic.

        Example: orchestrator help filters
        """
        try:
            show_paged(_screen(ctx.find_root(), about or []))
        except UsageError as error:
            streams.complain(str(error))
            raise typer.Exit(error.exit_code) from None


def show_paged(text: str) -> None:
    """Prints `text`; through the user's pager, where it is longer than the terminal that it is for."""
    is_long = len(text.splitlines()) >= shutil.get_terminal_size().lines
    if is_long and sys.stdin.isatty() and streams.can_draw(sys.stdout) and _page(text):
        return
    streams.put_text(f"{text}\n")


def _page(text: str) -> bool:
    """Whether a pager has shown it."""
    import shlex
    import subprocess

    try:
        pager = shlex.split(os.environ.get("PAGER") or _PAGER_DEFAULT)
        return subprocess.run(pager, input=text.encode(), check=False).returncode == 0  # noqa: S603  the user's own
    except (OSError, ValueError):
        return False


def _screen(root: Any, about: list[str]) -> str:
    if len(about) == 1 and about[0] in TOPICS:
        # a topic and a group of commands may have one name: `help endpoints` is the topic's, and says so
        return topic_screen(about[0]) + _see_also(root, about[0])
    context = root
    for word in about:
        found = context.command.get_command(context, word) if hasattr(context.command, "commands") else None
        if found is None:
            raise UsageError(_unknown(context, word))
        context = type(root)(found, info_name=word, parent=context)
    if context is root:
        return str(root.get_help())
    return group_screen(context) if hasattr(context.command, "commands") else command_screen(context, is_whole=True)


def _see_also(root: Any, topic: str) -> str:
    is_command = topic in root.command.commands
    return f"\n\nThe commands of that name: orchestrator {topic} --help" if is_command else ""


def _unknown(context: Any, word: str) -> str:
    known = [*getattr(context.command, "commands", {}), *(TOPICS if context.parent is None else ())]
    near = get_close_matches(word, known, n=1)
    advice = f"did you mean {near[0]}?" if near else f"topics are {', '.join(TOPICS)}"
    return f'there is no command and no topic "{word}"; {advice}'
