"""The placeholders in braces in a pipeline's paths and commands: its fire, the one before, its flow, a stage's results.

`{fire:%Y-%m-%d}` and `{previous:%Y-%m-%d}` are written as the clock of the schedule's zone shows them, `{flow}` is the
flow's name, and `{file:STAGE}` the path of a stage's results. A brace that means itself is doubled.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from orchestrator.core.pipelines.pipeline import flow_name
from orchestrator.core.text.name_match import nearest
from orchestrator.units import EPOCH

DIRECTIVES: Final = "aAbBdFGHIjmMpSTuUVwWyYzZ%"
"""What may follow a `%`: what means the same on every machine."""

_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_DIRECTIVE: Final = re.compile(r"%(.?)", re.DOTALL)


class Word(StrEnum):
    """What a placeholder begins with."""

    FIRE = "fire"
    PREVIOUS = "previous"
    FLOW = "flow"
    FILE = "file"


class Placeholder(NamedTuple):
    """One of them, with what stands behind its colon."""

    word: Word
    argument: str


class Moment(NamedTuple):
    """What the placeholders of one flow stand for."""

    pipeline: str
    fire_us: int
    previous_us: int | None
    """None: there was none before, or there is no schedule."""

    zone: str
    number: int = 1
    """Which flow of this fire it is."""

    @property
    def flow(self) -> str:
        """The name of the flow."""
        return flow_name(self.pipeline, self.fire_us, self.number)


def variables(at: Moment) -> Mapping[str, str]:
    """What commands of a flow find in their environment."""
    found = {"ORCHESTRATOR_FIRE": _iso(at.fire_us), "ORCHESTRATOR_FLOW": at.flow}
    if at.previous_us is not None:
        found["ORCHESTRATOR_PREVIOUS"] = _iso(at.previous_us)
    return found


def _iso(at_us: int) -> str:
    return f"{EPOCH + timedelta(microseconds=at_us):%Y-%m-%dT%H:%M:%SZ}"


def placeholders(text: str) -> tuple[Placeholder, ...]:
    """All that stand in `text`. Raises `ValueError` for one that is none."""
    return tuple(_read(match) for match in _PART.finditer(text) if match[0] not in ("{{", "}}"))


def with_doubled(text: str, names: Sequence[str]) -> str:
    """`text`, of which the placeholders of these names, and doubled braces, are still there once it was `expanded`."""
    others = re.compile("|".join((r"\{\{", r"\}\}", *(re.escape(f"{{{name}}}") for name in names))))
    return others.sub(lambda match: match[0].replace("{", "{{").replace("}", "}}"), text)


def expanded(text: str, moment: Moment, files: Mapping[str, str]) -> str:
    """`text` for one flow; `files` are the paths of results by stage.

    Raises `ValueError` as `placeholders` does, and where there is no fire before.
    """

    def value(match: re.Match[str]) -> str:
        if match[0] in ("{{", "}}"):
            return match[0][0]
        word, argument = _read(match)
        if word is Word.FLOW:
            return moment.flow
        if word is Word.FILE:
            return files[argument]
        at_us = moment.fire_us if word is Word.FIRE else moment.previous_us
        if at_us is None:
            raise ValueError(f"{match[0]}: there is no fire before that of {moment.flow}")
        return _shown(at_us, moment.zone, argument)

    return _PART.sub(value, text)


def _shown(at_us: int, zone: str, form: str) -> str:
    return (EPOCH + timedelta(microseconds=at_us)).astimezone(ZoneInfo(zone)).strftime(form)


def _read(match: re.Match[str]) -> Placeholder:
    if match[1] is None:
        raise ValueError(f"a brace stands alone; write {2 * match[0]} for one that means itself")
    name, _, argument = match[1].partition(":")
    if name not in tuple(Word):
        near = nearest(name, tuple(Word))
        advice = f"did you mean {near}?" if near else f"there are {', '.join(Word)}"
        raise ValueError(f"there is no placeholder {match[0]:.40}; {advice}")
    word = Word(name)
    if bool(argument) == (word is Word.FLOW):
        example = {Word.FLOW: "{flow}", Word.FILE: "{file:STAGE}"}.get(word, f"{{{word}:%Y-%m-%d}}")
        raise ValueError(f"{match[0]:.40} is written as {example}")
    if word in (Word.FIRE, Word.PREVIOUS):
        _check_form(argument, match[0])
    return Placeholder(word, argument)


def _check_form(form: str, shown: str) -> None:
    for directive in _DIRECTIVE.finditer(form):
        if not directive[1] or directive[1] not in DIRECTIVES:
            raise ValueError(f"{shown:.40}: {directive[0]} is not understood; there are %{', %'.join(DIRECTIVES)}")
