"""`orchestrator apply`: pipelines' files, checked and recorded."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.output import streams, tables
from orchestrator.core.text.wording import counted
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.sources import Choices

if TYPE_CHECKING:
    from orchestrator.api.flows.apply import Applied, FireToCome  # at run time `--help` would pay for it

Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="The files of pipelines, one each.")]
Check = Annotated[bool, typer.Option("--check", help="Only check them, and show what they come to; needs no ledger.")]

HEADINGS: Final = ("FIRE", "FLOW", "FILES")


@at_ledger("A JSON array with an object for each file.")
async def apply(files: Files, check: Check = False, *, choices: Choices, ledger: LedgerAddress, as_json: bool) -> None:
    """Check the files of pipelines, and record new versions of them.

    Their next fires are shown.

    Example: orchestrator apply captions.toml --check
    """
    from orchestrator.api.flows.apply import apply
    from orchestrator.cli.output.consoles import PlainConsole

    config = choices.configuration.named
    show_applied(await apply(files, ledger, check=check, console=PlainConsole(), config=config), as_json=as_json)


def show_applied(found: "Sequence[Applied]", *, as_json: bool) -> None:
    """Prints what each file says, and what became of it."""
    if as_json:
        streams.put_json(found)
        return
    for each in found:
        _put(each)


def _put(found: "Applied") -> None:
    streams.say(f"{found.name}: {counted(len(found.stages), 'stage')} ({', '.join(found.stages)}); {found.fires_at}")
    tables.put_parts(tables.columns(HEADINGS, (row for fire in found.fires for row in _rows(fire))))
    for stage, endpoint in found.endpoints.items():
        streams.say(f"{found.name}: {stage} is at the endpoint {endpoint}")
    for warning in found.warnings:
        streams.warn(f"{found.name}: {warning}")
    version = "" if found.version is None else f" as version {found.version}"
    streams.say(f"{found.name}: {found.file} is {found.outcome}{version}")


def _rows(fire: "FireToCome") -> Iterator[tuple[str, str, str]]:
    """A row for each of its files."""
    said = (fire.fire, fire.flow)
    for key, path in fire.paths.items() or [("none", "")]:
        yield *said, f"{key}: {_from_here(path)}" if path else key
        said = ("", "")


def _from_here(path: str) -> str:
    """A path as short as it can be said in this folder."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path
