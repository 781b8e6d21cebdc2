"""A noun of the command line: a group of verbs, of which one is meant where none is named."""

from difflib import get_close_matches
from typing import Any

from typer.core import TyperGroup


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
        elif is_bare:
            verb = self.default_verb
        else:
            verb = self.named_verb if self._is_name(ctx, args[0]) else None
        return list(super().parse_args(ctx, args if verb is None else [verb, *args]))

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
