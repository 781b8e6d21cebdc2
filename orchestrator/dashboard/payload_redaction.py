"""What of inputs and outputs may be shown: they are people's data, and pages are seen by more people than files are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from orchestrator.api.pages.runs.payload_policy import check_where

REDACTED: Final = "[redacted]"
"""What stands in place of a value that is not to be shown."""


@dataclass(frozen=True, kw_only=True)
class Payloads:
    """What may be shown of them to whoever asks for a page."""

    are_hidden: bool = False
    """Nothing at all."""

    redacted: tuple[str, ...] = ()
    """Members that are left out, as `input.email` or `output.faces.name`; in a list, those of each entry."""

    def shown(self, part: str, raw: bytes) -> bytes | None:
        """What may be shown of `raw`, the JSON of a job's `part` (`input`, `output`); None where nothing may.

        JSON that cannot be read is shown only where nothing of it would be left out.
        """
        if self.are_hidden:
            return None
        paths = [path.split(".")[1:] for path in self.redacted if path.split(".")[0] == part]
        if not paths:
            return raw
        try:
            value = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            return None
        for path in paths:
            value = _without(value, path)
        return msgspec.json.encode(value)

    def may_search(self, members: Iterable[str]) -> bool:
        """Whether jobs may be looked for by these members, as `input.email`: an answer tells what they are."""
        if self.are_hidden:
            return not any(member.split(".")[0] in ("input", "output") for member in members)
        return not any(_overlap(member, path) for member in members for path in self.redacted)

    def refuse_where(self, where: str, now: int) -> None:
        """Raises `UsageError` for a filter of which the number of jobs would tell what is hidden."""
        check_where(self, where, now)


def _overlap(member: str, path: str) -> bool:
    """Whether one of them holds the other."""
    return f"{member}.".startswith(f"{path}.") or f"{path}.".startswith(f"{member}.")


def _without(value: object, path: list[str]) -> object:
    if not path:
        return REDACTED
    if isinstance(value, list):
        return [_without(each, path) for each in value]
    if isinstance(value, dict) and path[0] in value:
        return {**value, path[0]: _without(value[path[0]], path[1:])}
    return value
