"""Flags that several commands have in common, written down once for all of them."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

Flags = Mapping[str, object]
"""The values of all flags and arguments of a command, by parameter name."""

Command = Callable[..., None]


def also(**shared: Any) -> Callable[[Command], Command]:
    """Gives a command the flags `shared` (the annotation of each, by parameter name) behind its own.

    It takes the values of all, its own included, as `flags`; one that was not given is None (see `options`).
    """

    def widened(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [parameter for parameter in signature.parameters.values() if parameter.name != "flags"]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in shared.items()
        ]

        @wraps(command)
        def whole(**given: object) -> None:
            command(**{parameter.name: given[parameter.name] for parameter in own}, flags=given)

        whole.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
        whole.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *more)}
        return whole

    return widened
