"""A noun of the command line: a group of verbs, of which one is meant where none is named."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

import typer
from typer.core import TyperGroup

Members: TypeAlias = Mapping[str, Callable[..., None] | typer.Typer]
"""Commands, and groups of them, by their names."""


def register(commands: typer.Typer, members: Members, panel: str) -> None:
    """Registers `members`, which the help shows in that panel."""
    for name, member in members.items():
        if isinstance(member, typer.Typer):
            commands.add_typer(member, name=name, rich_help_panel=panel)
        else:
            commands.command(name, rich_help_panel=panel)(member)


class NounGroup(TyperGroup):
    """A group of which the bare noun lists, with the flags that follow it, and a noun with a name shows what is called
    so.
    """

    default_verb = "list"
    named_verb: str | None = "show"
    """The one that is meant where a name follows; None: none."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the verb where it is missing; who completes a line is still to choose one."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if ctx.resilient_parsing:
            verb = None
        elif is_bare and (at := self._verb_behind_flags(ctx, args)) is not None:
            verb, args = args[at], [*args[:at], *args[at + 1 :]]
        elif is_bare:
            verb = self._with_flags(ctx, args)
        else:
            verb = self.named_verb if self._is_name(ctx, args[0]) else None
        return list(super().parse_args(ctx, args if verb is None else [verb, *args]))

    def _verb_behind_flags(self, ctx: Any, args: list[str]) -> int | None:
        """Where the first word is a verb although flags stand before it, as in `runs --ledger FILE show NAME`."""
        commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
        at = self._first_word(args, [each for each in commands if each is not None])
        return at if at is not None and args[at] in self.list_commands(ctx) else None

    def _with_flags(self, ctx: Any, args: list[str]) -> str:
        """Which one is meant where flags follow the noun, and a name perhaps follows them."""
        verbs = [self.default_verb, *([] if self.named_verb is None else [self.named_verb])]
        commands = [found for verb in verbs if (found := self.get_command(ctx, verb)) is not None]
        at = self._first_word(args, commands)
        return verbs[-1] if at is not None and self._is_name(ctx, args[at]) else self.default_verb

    @staticmethod
    def _first_word(args: list[str], commands: list[Any]) -> int | None:
        """Where the first word stands that is neither a flag of one of these commands nor a flag's value."""
        valued = {
            flag for each in commands for of in each.params if not getattr(of, "is_flag", True) for flag in of.opts
        }
        befores = ("", *args)
        words = (n for n, word in enumerate(args) if befores[n] not in valued and not word.startswith("-"))
        return next(words, None)

    def _is_name(self, ctx: Any, word: str) -> bool:
        """Whether it is neither a verb nor one that was mistyped."""
        verbs = self.list_commands(ctx)
        return not word.startswith("-") and word not in verbs and not get_close_matches(word, verbs)


class ShownGroup(NounGroup):
    """One of which the bare noun shows how things stand."""

    default_verb = "show"


class ListedGroup(NounGroup):
    """One of which a noun with a name lists what is in that."""

    named_verb = "list"


class RecordedGroup(NounGroup):
    """One of which a noun with a name shows what has happened to that."""

    named_verb = "history"
