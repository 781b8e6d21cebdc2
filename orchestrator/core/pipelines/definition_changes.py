"""What has changed from one version of a pipeline to the next, for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.text.wording import shortened

VALUE_CHARS_MAX: Final = 60

_NOT_SHOWN: Final = frozenset({"notify"})
"""Addresses of receivers are as good as secrets."""


def definition_changes(before: Pipeline, after: Pipeline) -> tuple[str, ...]:
    """Each field that is another one, with what it was and is; stages are told apart by their names."""
    return tuple(_changes(_named(before), _named(after), ()))


def _named(pipeline: Pipeline) -> Mapping[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(pipeline)
    fields["stages"] = {stage["name"]: stage for stage in fields["stages"]}
    return fields


def _changes(before: Any, after: Any, path: tuple[str, ...]) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys((*before, *after)):
            yield from _changes(before.get(name), after.get(name), (*path, name))
        return
    what = ".".join(path)
    if not _NOT_SHOWN.isdisjoint(path):
        yield f"{what} changed"
    elif before is None:
        yield f"{what} added: {_text(after)}"
    elif after is None:
        yield f"{what} taken away: was {_text(before)}"
    else:
        yield f"{what}: {_text(before)} → {_text(after)}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return shortened(" ".join(map(str, value)), VALUE_CHARS_MAX)
    return shortened(str(value), VALUE_CHARS_MAX)
