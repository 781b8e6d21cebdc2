"""A noun of the command line: a group of verbs, of which `list` is meant where none is named."""

from typing import Any

from typer.core import TyperGroup

DEFAULT_VERB = "list"


class NounGroup(TyperGroup):
    """A group whose `list` is what the bare noun does, with the flags that follow it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts `list` where a verb is missing; who completes a line is still to choose one."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not ctx.resilient_parsing:
            args = [DEFAULT_VERB, *args]
        return list(super().parse_args(ctx, args))
