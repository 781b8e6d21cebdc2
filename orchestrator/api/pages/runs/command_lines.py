"""The commands that pages name, as somebody pastes them."""

import shlex

from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT


def command_line(ledger: LedgerAddress, verb: str, name: str, *words: str) -> str:
    """`orchestrator`, the verb, the run of that name, these words, and the ledger where it is not the usual one."""
    flags = [*words, *([] if ledger == LEDGER_DEFAULT else run_request.LEDGER.words(ledger))]
    named = [*flags, "--", name] if name.startswith("-") else [name, *flags]
    return shlex.join(["orchestrator", *verb.split(), *named])
