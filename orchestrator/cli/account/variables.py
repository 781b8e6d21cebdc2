"""Environment variables of containers, as the command line takes them.

A value is best not written there, where the history of the shell and everybody on the machine can read it: it is taken
from the environment (`KEY=env:NAME`) or a file, or the service puts it in from a secret (`{{ RUNPOD_SECRET_name }}`),
which goes out as the reference that it is.
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from orchestrator.cli.account.templates import CONTAINER, from_environment
from orchestrator.cli.output import streams
from orchestrator.errors import UsageError

_REFERENCE: Final = re.compile(r"\{\{\s*RUNPOD_SECRET_[^\s{}]+\s*\}\}")
_CONFIDENTIAL: Final = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)

HIDDEN: Final = "(not shown)"

EnvFile = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Variables from a file, KEY=VALUE on each line; --env wins.", rich_help_panel=CONTAINER
    ),
]


def variables(given: Iterable[str], file: str | None) -> dict[str, str]:
    """The variables of `--env` and `--env-file`. Warns of what should not have been typed. Raises `UsageError`."""
    found = {} if file is None else _of_file(Path(file))
    for text in given:
        key, value = _pair(text, "--env")
        taken = from_environment(value, f"--env {key}")
        if taken is None and _CONFIDENTIAL.search(key) and not _REFERENCE.search(value):
            streams.warn(
                f"--env {key}: a value on the command line can be read by others on this machine;"
                f" write {key}=env:NAME, use --env-file, or name a secret: {key}='{{{{ RUNPOD_SECRET_name }}}}'"
            )
        found[key] = value if taken is None else taken
    return found


def unshown(env: Mapping[str, str]) -> dict[str, str]:
    """What may be printed of variables that somebody has just given: their names, and references to secrets."""
    return {key: value if _REFERENCE.fullmatch(value.strip()) else HIDDEN for key, value in env.items()}


def _of_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--env-file {path}: cannot be read as text ({type(error).__name__})") from None
    pairs = (
        _pair(line.strip(), f"--env-file {path}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.lstrip().startswith("#")
    )
    return dict(pairs)


def _pair(text: str, where: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"{where}: write it as KEY=VALUE")  # not quoted: it may be a value without its key
    return key.strip(), value
