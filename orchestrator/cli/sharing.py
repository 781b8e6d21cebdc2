"""How a command is written: a function of its own flags that says what is to be done. The rest is written once.

Flags that several commands have in common come behind its own, and somebody who knows how such commands are carried out
makes an exit code of what it returns.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from orchestrator.cli.config import Choices

Flags = Mapping[str, Any]
"""The values of all flags and arguments of a command, by parameter name."""

_TOLD = ("flags", "choices")


def also(
    carry_out: Callable[[Flags, Callable[[Choices], Any]], object], **shared: Any
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Gives a command the flags `shared` (the annotation of each, by parameter name) behind its own.

    One that was not given is None (see `options`). Where the command has a parameter `flags` it takes the values of
    all, its own included, and in `choices` what was chosen, by whichever way. `carry_out` gets all flags, and the
    command, which returns what is to be done once it is told the choices.
    """

    def widened(command: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [parameter for parameter in signature.parameters.values() if parameter.name not in _TOLD]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in shared.items()
        ]

        @wraps(command)
        def whole(**given: object) -> None:
            def prepare(choices: Choices) -> Any:
                known = {**given, "flags": given, "choices": choices}
                return command(**{name: known[name] for name in signature.parameters})

            carry_out(given, prepare)

        whole.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        whole.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *more)}
        return whole

    return widened
