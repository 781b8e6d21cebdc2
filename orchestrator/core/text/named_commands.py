"""Commands that sentences name, completed where they are shown: who says them does not know which ledger is meant."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

_ALONE: Final = (
    *("status", "doctor", "watch", "progress", "failures", "results", "verify", "resume", "serve", "stop"),
    *("pause", "unpause", "continue", "cancel", "retry", "priority", "apply", "tick", "trigger", "backfill"),
)
_VERBS: Final = {
    "runs": (
        *("list", "show", "pause", "unpause", "continue", "cancel", "retry", "priority"),
        *("recheck", "resend", "rename", "delete", "tidy", "export"),
    ),
    "jobs": ("list", "show", "cancel", "retry"),
    "flows": ("list", "show", "lineage", "rerun"),
    "schedules": ("list", "next", "history", "check", "pause", "continue", "remove"),
    "brakes": ("show", "set"),
    "limits": ("show", "set", "reset"),
    "ledger": ("info", "backup", "compact"),
}

COMMANDS: Final = (*_ALONE, *(f"{noun} {verb}" for noun, verbs in _VERBS.items() for verb in verbs))
"""The commands that are about a ledger, without the name of the program."""

_NAMED: Final = re.compile(
    rf"(?<!next )\borchestrator (?P<command>{'|'.join(sorted(COMMANDS, key=len, reverse=True))}|{'|'.join(_VERBS)})"
    r"(?![a-z-])(?P<rest>[^\n;]*)"
)


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


def message_with_ledger(body: bytes, words: Sequence[str]) -> bytes:
    """The same of a message that somebody is told: JSON, whose `data` has `commands`."""
    if not words:
        return body
    message: dict[str, Any] = msgspec.json.decode(body)
    data = message["data"]
    told = {**data, "commands": [with_ledger(each, words) for each in data["commands"]]}
    return msgspec.json.encode({**message, "data": told})
