"""How a command is written, and its flags as Typer takes them: what each is, is declared in `settings/`.

A command is a function of its own flags that says what is to be done. Flags that several have in common come behind its
own, and somebody who knows how such commands are carried out makes an exit code of what it returns. None is "not
given": the value may still come from the environment or the file (see `config`).
"""

import inspect
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any, Final

import typer

from orchestrator.cli.framework.completion import among, run_names, words_of
from orchestrator.settings import command_settings, request_settings
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices
from orchestrator.settings.value_types import Kind

Flags = Mapping[str, Any]
"""The values of all flags and arguments of a command, by parameter name."""

_TOLD = ("flags", "choices")
_STYLE_BEGINS: Final = re.compile(r"\[(?=[a-z#/@])")


def option(setting: Setting[Any], means: str | None = None) -> Any:
    """The flag of `setting`; `means` is for a command where it means something else."""
    return typer.Option(
        str(setting),
        metavar=setting.value_type.metavar,
        help=means or _as_markup(setting.help),
        rich_help_panel=None if means else setting.panel,
        autocompletion=among(setting.value_type.words or words_of(setting.value_type.metavar)),
    )


def _as_markup(text: str) -> str:
    """Plain `text` as Rich's markup, which would take what stands in brackets for a style."""
    return _STYLE_BEGINS.sub(r"\[", text)


def flags_of(*settings: Setting[Any]) -> dict[str, Any]:
    """The annotation of the flag of each, by parameter name (see `also`)."""
    return {setting.key.replace("-", "_"): _annotation(setting) for setting in settings}


def _annotation(setting: Setting[Any]) -> Any:
    match setting.value_type.kind:
        case Kind.SWITCH:
            return Annotated[bool | None, option(setting)]
        case Kind.LIST:
            return Annotated[list[str] | None, option(setting)]
        case _:
            return Annotated[str | None, option(setting)]


Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT...",
        help="The input: files of JSON lines, CSV, TSV, Parquet, a JSON array or OpenAI Batch, packed or not, in their"
        " order; patterns; or a folder of text files. [bold]-[/] is standard input.",
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", autocompletion=run_names, help="The run, or as much of its name as no other run begins with."
    ),
]
OnlyRun = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", autocompletion=run_names, help="The run, or the beginning of its name. Default: the only one."
    ),
]
Where = Annotated[
    str,
    typer.Option(
        "--where",
        "-w",
        metavar="FILTER",
        help="Which jobs, as in [bold]'class=timed_out attempts>2'[/]. Default: all.",
    ),
]

Ledger = Annotated[str | None, option(request_settings.LEDGER)]
Config = Annotated[str | None, option(command_settings.CONFIG)]


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
