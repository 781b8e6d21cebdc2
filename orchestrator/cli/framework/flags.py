"""How a command is written, and its flags as Typer takes them: what each is, is declared in `settings/`.

A command is a function of its own flags that does, or says, what is to be done. Flags that several have in common come
behind its own, and somebody who knows how such commands are carried out makes an exit code of what it returns. None is
"not given": the value may still come from the environment or the file.
"""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any, Final

import typer

from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.value_types import Kind


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The runs of the ledger that the line names so far whose names begin with `incomplete`, the newest first.

    Nothing is said where there is none: whoever completes a line has not given the command yet.
    """
    with suppress(Exception):
        return [name for name in reversed(_names(choose(ctx.params, os.environ).ledger)) if name.startswith(incomplete)]
    return []


def _names(ledger: LedgerAddress) -> Sequence[str]:
    import anyio

    from orchestrator.api.inspect.status import names

    return anyio.run(names, ledger)


def words_of(metavar: str) -> tuple[str, ...]:
    """The words among what a metavar offers, as in `N|auto|off`."""
    return tuple(word for word in metavar.split("|") if "|" in metavar and word.isalpha() and word.islower())


def among(words: Sequence[str]) -> Any:
    """Completes to one of `words`; None where there are none."""
    return (lambda incomplete: [word for word in words if word.startswith(incomplete)]) if words else None


Flags = Mapping[str, Any]
"""The values of all flags and arguments of a command, by parameter name."""

PROVIDED: Final = ("flags", "choices", "ledger", "account", "request", "console", "as_json")
"""The parameters of commands that are no flags: the values of all flags, what was chosen, what it is about, and whether
`--json` was.
"""

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


def flag(setting: Setting[Any], means: str | None = None) -> Any:
    """The annotation of a parameter whose flag that is; see `option`."""
    match setting.value_type.kind:
        case Kind.SWITCH:
            return Annotated[bool | None, option(setting, means)]
        case Kind.LIST:
            return Annotated[list[str] | None, option(setting, means)]
        case _:
            return Annotated[str | None, option(setting, means)]


def _as_markup(text: str) -> str:
    """Plain `text` as Rich's markup, which would take what stands in brackets for a style."""
    return _STYLE_BEGINS.sub(r"\[", text)


def flags_of(*settings: Setting[Any]) -> dict[str, Any]:
    """The annotation of the flag of each, by parameter name (see `also`)."""
    return {setting.key.replace("-", "_"): flag(setting) for setting in settings}


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


def also(
    carry_out: Callable[[Flags, Callable[..., Any]], object], **shared: Any
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Gives a command the flags `shared` (the annotation of each, by parameter name) behind its own.

    `carry_out` gets the values of all flags, of which one that was not given is None, and the command, to be called
    with what was chosen, by whichever way, and with whatever else it has parameters for of `PROVIDED`.
    """

    def widened(command: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(command)
        own = [parameter for parameter in signature.parameters.values() if parameter.name not in PROVIDED]
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in shared.items()
        ]

        @wraps(command)
        def whole(**given: object) -> None:
            def called(choices: Choices, **told: object) -> Any:
                known = {**given, **told, "flags": given, "choices": choices}
                return command(**{name: known[name] for name in signature.parameters})

            carry_out(given, called)

        whole.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
        whole.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *more)}
        return whole

    return widened
