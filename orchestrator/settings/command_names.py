"""The commands that sentences name: next steps as commands, and commands with the ledger that they are about.

Both are done where a sentence is shown: whoever wrote it knows neither the command line nor which ledger is meant.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import convert

from orchestrator.core.text.next_step import NextStep, Suggestion
from orchestrator.settings import run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT

_ALONE: Final = (
    *("status", "doctor", "watch", "progress", "failures", "results", "verify", "resume", "serve", "stop"),
    *("pause", "unpause", "continue", "cancel", "retry", "priority", "apply", "tick", "trigger", "backfill", "report"),
)
_VERBS: Final = {
    "runs": (
        *("list", "show", "pause", "unpause", "continue", "cancel", "retry", "priority"),
        *("recheck", "resend", "rename", "delete", "tidy", "export"),
    ),
    "jobs": ("list", "show", "cancel", "retry"),
    "flows": ("list", "show", "lineage", "rerun", "backfills"),
    "schedules": ("list", "next", "history", "check", "pause", "continue", "remove"),
    "brakes": ("show", "set"),
    "limits": ("show", "set", "reset"),
    "dashboard": ("serve", "link", "key"),
    "metrics": ("show", "write"),
    "notify": ("list", "test", "resend"),
    "ledger": ("info", "backup", "compact"),
}

COMMANDS: Final = (*_ALONE, *(f"{noun} {verb}" for noun, verbs in _VERBS.items() for verb in verbs))
"""The commands that are about a ledger, without the name of the program."""

_NAMED: Final = re.compile(
    rf"(?<!next )\borchestrator (?P<command>{'|'.join(sorted(COMMANDS, key=len, reverse=True))}|{'|'.join(_VERBS)})"
    r"(?![a-z-])(?P<rest>[^\n;]*)"
)


_COMMAND_OF: Final[Mapping[NextStep, str]] = {
    NextStep.SHOW_RUN: "runs show NAME",
    NextStep.RESUME_RUN: "resume NAME",
    NextStep.SERVE: "serve",
    NextStep.CONTINUE_RUN: "unpause NAME",
    NextStep.UNPAUSE_RUN: "unpause NAME",
    NextStep.RETRY_RUN: "retry NAME",
    NextStep.DIAGNOSE_RUN: "doctor NAME",
    NextStep.SHOW_FAILURES: "failures NAME",
    NextStep.REVALIDATE_RUN: "runs recheck NAME",
    NextStep.SHOW_LIMITS: "limits show",
    NextStep.SHOW_BRAKES: "brakes show NAME",
    NextStep.CHANGE_BRAKES: "brakes set NAME",
    NextStep.CHANGE_RATE: "limits set NAME run=N/SECONDS",
    NextStep.CHANGE_CONCURRENCY: "limits set NAME run=N/SECONDS:AT_ONCE",
    NextStep.CANCEL_RUN: "cancel NAME",
    NextStep.CANCEL_JOBS: "jobs cancel NAME",
    NextStep.SHOW_FLOW: "flows show NAME",
    NextStep.CONTINUE_FLOW: "unpause NAME",
    NextStep.CARRY_OUT_FLOWS: "tick",
    NextStep.SHOW_SCHEDULE: "schedules history NAME",
    NextStep.CONTINUE_SCHEDULE: "schedules continue NAME",
    NextStep.BACKFILL: "backfill NAME --from SINCE --to UNTIL",
    NextStep.RESTORE_WORKERS: "runs tidy",
    NextStep.READ_WORKER_LOGS: "endpoints logs",
    NextStep.COMPACT_LEDGER: "ledger compact",
}


def command(suggestion: Suggestion, *flags: str) -> str:
    """The command that does what is suggested, with these flags at its end."""
    given = {"NAME": suggestion.name, "SINCE": suggestion.since, "UNTIL": suggestion.until}
    words = (given.get(word, word) for word in _COMMAND_OF[suggestion.step].split())
    return shlex.join(["orchestrator", *filter(None, words), *flags])


def with_ledger(text: str, words: Sequence[str]) -> str:
    """`text`, in which each command that is about a ledger is told which by `words`, unless it is told already."""
    if not words or "orchestrator " not in text:
        return text
    told = " ".join(words)

    def completed(found: re.Match[str]) -> str:
        rest = found["rest"]
        if words[0] not in rest:
            rest = f" {told}{_NAMED.sub(completed, rest)}"
        return f"orchestrator {found['command']}{rest}"

    return _NAMED.sub(completed, text)


def message_with_commands(body: bytes, words: Sequence[str]) -> bytes:
    """A message as the ledger has it, JSON whose `data` has `commands`, with these as they are typed for that ledger.

    They are stored as suggestions; earlier versions of the program stored the commands.
    """
    message: dict[str, Any] = msgspec.json.decode(body)
    data = message["data"]
    typed = [each if isinstance(each, str) else command(convert(each, Suggestion)) for each in data["commands"]]
    return msgspec.json.encode({**message, "data": {**data, "commands": [with_ledger(each, words) for each in typed]}})


def ledger_words(ledger: LedgerAddress) -> tuple[str, ...]:
    """What a command is told, as it is typed, so that it is about this ledger; nothing where it is the usual one."""
    return () if ledger == LEDGER_DEFAULT else (str(run_request.LEDGER), shlex.quote(str(ledger)))


def with_its_ledger(text: str, ledger: LedgerAddress) -> str:
    """`text`, in which each command that is about a ledger is about this one."""
    return with_ledger(text, ledger_words(ledger))
