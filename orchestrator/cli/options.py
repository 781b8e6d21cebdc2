"""The flags of the commands, as Typer takes them: what each is, is declared in `orchestrator.declared`.

None is "not given": the value may still come from the environment or the file (see `config`).
"""

from typing import Annotated, Any

import typer

from orchestrator import declared
from orchestrator.declaration import Kind, Setting


def option(setting: Setting[Any], means: str | None = None) -> Any:
    """The flag of `setting`; `means` is for a command where it means something else."""
    return typer.Option(
        str(setting),
        metavar=setting.form.metavar,
        help=means or setting.help,
        rich_help_panel=None if means else setting.panel,
        autocompletion=(lambda: list(setting.form.words)) if setting.form.words else None,
    )


def flags_of(*settings: Setting[Any]) -> dict[str, Any]:
    """The annotation of the flag of each, by parameter name (see `sharing.also`)."""
    return {setting.key.replace("-", "_"): _annotation(setting) for setting in settings}


def _annotation(setting: Setting[Any]) -> Any:
    match setting.form.kind:
        case Kind.SWITCH:
            return Annotated[bool | None, option(setting)]
        case Kind.LIST:
            return Annotated[list[str] | None, option(setting)]
        case _:
            return Annotated[str | None, option(setting)]


Source = Annotated[
    str,
    typer.Argument(metavar="INPUT", help="The input: JSON lines, one job a line. [bold]-[/] is standard input."),
]
RunName = Annotated[str, typer.Argument(metavar="NAME", help="The run, as [bold]orchestrator status[/] names it.")]

Ledger = Annotated[str | None, option(declared.LEDGER)]
Config = Annotated[str | None, option(declared.CONFIG)]
