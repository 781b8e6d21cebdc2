"""A noun of the command line: a group of verbs, of which one is meant where none is named."""

from typing import Any

from typer.core import TyperGroup


class NounGroup(TyperGroup):
    """A group of which the bare noun lists, with the flags that follow it."""

    default_verb = "list"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the verb where it is missing; who completes a line is still to choose one."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not ctx.resilient_parsing:
            args = [self.default_verb, *args]
        return list(super().parse_args(ctx, args))


class ShownGroup(NounGroup):
    """One of which the bare noun shows how things stand."""

    default_verb = "show"
