"""Typer's commands and groups, with help as `command_screens` draws it."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.cli.help.command_screens import command_screen, group_screen


class HelpedCommand(TyperCommand):
    """A command whose help is drawn here."""

    def get_help(self, ctx: Any) -> str:
        """What `--help` shows."""
        return command_screen(ctx)


class _HelpedGroup:
    def get_help(self, ctx: Any) -> str:
        """What `--help` shows."""
        return group_screen(ctx)


def helped_group(kind: type[TyperGroup]) -> type[TyperGroup]:
    """A group of commands like `kind`, whose help is drawn here."""
    has_own = "get_help" in vars(kind) or issubclass(kind, _HelpedGroup)
    return kind if has_own else type(f"Helped{kind.__name__}", (_HelpedGroup, kind), {})


def install_help(commands: typer.Typer) -> None:
    """Has all `commands`, those of groups among them, show their help so."""
    for command in commands.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = HelpedCommand
    kind = commands.info.cls
    commands.info.cls = helped_group(kind if isinstance(kind, type) else TyperGroup)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            install_help(group.typer_instance)
