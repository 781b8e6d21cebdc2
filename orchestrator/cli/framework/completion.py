"""What a shell completes: the names of runs, and the words that a setting can have."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer

from orchestrator.cli.framework.requests import ledger_of
from orchestrator.settings.sources import choose


def run_names(ctx: typer.Context, incomplete: str) -> list[str]:
    """The runs of the ledger that the line names so far whose names begin with `incomplete`, the newest first.

    Nothing is said where there is none: whoever completes a line has not given the command yet.
    """
    with suppress(Exception):
        return [
            name for name in reversed(_names(ledger_of(choose(ctx.params, os.environ)))) if name.startswith(incomplete)
        ]
    return []


def _names(ledger: Path) -> Sequence[str]:
    import anyio

    from orchestrator.api.inspect.status import names

    return anyio.run(names, ledger)


def words_of(metavar: str) -> tuple[str, ...]:
    """The words among what a metavar offers, as in `N|auto|off`."""
    return tuple(word for word in metavar.split("|") if "|" in metavar and word.isalpha() and word.islower())


def among(words: Sequence[str]) -> Any:
    """Completes to one of `words`; None where there are none."""
    return (lambda incomplete: [word for word in words if word.startswith(incomplete)]) if words else None
