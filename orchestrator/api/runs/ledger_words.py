"""Commands that a stored sentence names, for programs and Python: the command line completes what it shows itself."""

import shlex
from pathlib import Path

from orchestrator.settings import request_settings
from orchestrator.settings.command_names import with_ledger
from orchestrator.settings.values import LEDGER_DEFAULT


def ledger_words(ledger: Path) -> tuple[str, ...]:
    """What a command is told, as it is typed, so that it is about this ledger; nothing where it is the usual one."""
    return () if ledger == LEDGER_DEFAULT else (str(request_settings.LEDGER), shlex.quote(str(ledger)))


def with_its_ledger(text: str, ledger: Path) -> str:
    """`text`, in which each command that is about a ledger is about this one."""
    return with_ledger(text, ledger_words(ledger))
