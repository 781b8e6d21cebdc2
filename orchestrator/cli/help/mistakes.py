"""What a command line that cannot be understood is answered with: the nearest flag, or the command that has it."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, Final

_COMMANDS_NAMED: Final = 3


def what_is_wrong(error: Any) -> str:
    """What is wrong, in a sentence: of a command that lacks several of its parts all of them."""
    lacking = _lacking(error)
    if not lacking[1:]:
        return str(error.format_message()).strip()
    return f"Missing {', '.join(f'{param.param_type_name} {param.get_error_hint()}' for param in lacking)}."


def _lacking(error: Any) -> list[Any]:
    """What has to be given and is not, where `error` says so of one: what was given was looked at before."""
    if type(error).__name__ != "MissingParameter" or error.ctx is None:
        return []
    return [param for param in error.ctx.command.params if param.required and param.name not in error.ctx.params]


def advice(error: Any) -> str:
    """What may have been meant, a line for each; empty where nobody knows."""
    flag = getattr(error, "option_name", None)
    context = getattr(error, "ctx", None)
    if flag is None or context is None:
        return ""
    own = {name for param in context.command.params for name in (*param.opts, *param.secondary_opts)}
    elsewhere = [path for path, flags in _flags(context.find_root().command, "orchestrator") if flag in flags]
    if elsewhere and hasattr(context.command, "commands"):
        return f"flags stand behind the command, as in: {context.command_path} COMMAND {flag} ..."
    if elsewhere:
        named = ", ".join(elsewhere[:_COMMANDS_NAMED])
        more = f" and {len(elsewhere) - _COMMANDS_NAMED} more" if len(elsewhere) > _COMMANDS_NAMED else ""
        return f"{flag} is a flag of {named}{more}"
    near = get_close_matches(flag, sorted(name for name in own if name.startswith("--")), n=1)
    return f"did you mean {near[0]}?" if near else ""


def _flags(command: Any, path: str) -> Iterator[tuple[str, set[str]]]:
    """The commands that are no second names, each with its flags."""
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from _flags(inner, f"{path} {name}")
    if not hasattr(command, "commands"):
        yield path, {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
