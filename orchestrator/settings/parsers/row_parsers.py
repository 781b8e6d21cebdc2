"""How what is said of the rows of inputs and outputs is written: which columns, of which types, made by which
templates.
"""

from collections.abc import Sequence
from typing import Final

from orchestrator.settings.words_and_defaults import CellType, Include

FLATTEN_ROOTS: Final = ("output", "input", "metadata")
"""What a path of `flatten` leads into."""


def parse_include(texts: Sequence[str]) -> tuple[Include, ...]:
    """In one order, whatever was written; without any word nothing."""
    words = [word.strip() for word in texts[-1].split(",") if word.strip()]
    for word in words:
        if word not in tuple(Include):
            raise ValueError(f'"{word:.40}" is none of {", ".join(Include)}')
    return tuple(each for each in Include if each in words)


def parse_flatten(texts: Sequence[str]) -> tuple[str, ...]:
    """Paths into outputs and inputs, each of which is a column."""
    for text in texts:
        root, *parts = text.split(".")
        if root not in FLATTEN_ROOTS or not all(parts):
            raise ValueError(f'"{text:.80}" is no path; write it as output.caption or output.choices.0.text')
    if twice := [text for text in texts if texts.count(text) > 1]:
        raise ValueError(f"{twice[0]} stands there twice")
    return tuple(texts)


def parse_templates(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Fields, each with the template that makes it, as in `prompt={{ row.caption }}`."""
    return _once([_pair(text, "NAME=TEMPLATE") for text in texts])


def parse_types(texts: Sequence[str]) -> tuple[tuple[str, CellType], ...]:
    """Columns, each with the type of its cells."""
    found = _once([_pair(text.strip(), "NAME=TYPE") for text in texts[-1].split(",") if text.strip()])
    if wrong := [kind for _, kind in found if kind not in tuple(CellType)]:
        raise ValueError(f'"{wrong[0]:.40}" is none of {", ".join(CellType)}')
    return tuple((name, CellType(kind)) for name, kind in found)


def format_types(value: Sequence[tuple[str, CellType]]) -> Sequence[str]:
    """The text that those were."""
    return (",".join(format_pairs(value)),)


def format_pairs(value: Sequence[tuple[str, str]]) -> list[str]:
    """The texts that pairs are written as."""
    return [f"{name}={text}" for name, text in value]


def _pair(text: str, form: str) -> tuple[str, str]:
    name, equals, rest = text.partition("=")
    if not equals or not name.strip():
        raise ValueError(f'"{text:.80}" is not {form}')
    return name.strip(), rest


def _once(found: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there twice")
    return tuple(found)
