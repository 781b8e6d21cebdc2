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
            verb = self._with_flags(ctx, args)
        else:
            verb = self.named_verb if self._is_name(ctx, args[0]) else None
        return list(super().parse_args(ctx, args if verb is None else [verb, *args]))

    def _with_flags(self, ctx: Any, args: list[str]) -> str:
        """Which one is meant where flags follow the noun, and a name perhaps follows them."""
        verbs = [self.default_verb, *([] if self.named_verb is None else [self.named_verb])]
        commands = [found for verb in verbs if (found := self.get_command(ctx, verb)) is not None]
        valued = {
            flag for each in commands for of in each.params if not getattr(of, "is_flag", True) for flag in of.opts
        }
        words = (word for before, word in zip(("", *args), args, strict=False) if before not in valued)
        word = next((word for word in words if not word.startswith("-")), None)
        return verbs[-1] if word is not None and self._is_name(ctx, word) else self.default_verb

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
