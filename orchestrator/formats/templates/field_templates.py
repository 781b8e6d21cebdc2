"""Templates that make a field of an input from a record: `{{ row.caption }}`, in Jinja's sandbox.

A name that is not there is an error, never an empty text. A template that is one expression and nothing else gives its
value as it is, a number as a number; every other one gives text.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from orchestrator.core.text.name_match import nearest
from orchestrator.errors import UsageError

Template = Callable[[Mapping[str, Any]], Any]
"""From a record to a value. Raises `ValueError` in words for the template's author."""


def template_of(text: str) -> Template:
    """What `text` makes of a record, which it calls `row`. Raises `ValueError` where it is no template."""
    from orchestrator.formats.templates.jinja_sandbox import compiled  # noqa: PLC0415  who has no templates needs no Jinja

    return compiled(text)


def instead_of(name: str, record: Mapping[str, Any]) -> str:
    """What a row has that lacks a field of that name, in words for whoever named it: the nearest name first."""
    names = [str(each) for each in record]
    near = nearest(name, names)
    has = f"this row has {', '.join(names)[:200] or 'nothing'}"
    return has if near is None else f"did you mean {near!r}? {has}"


_kept_template: Final = lru_cache(maxsize=100)(template_of)


def check_templates(templates: Iterable[tuple[str, str]]) -> None:
    """Raises `UsageError` where one of these is no template."""
    for name, text in templates:
        try:
            template_of(text)
        except ValueError as error:
            raise UsageError(f"<setting map> {name}={text}: {error}") from None


_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_decode: Final = msgspec.json.Decoder().decode


def remade(given: bytes, templates: Iterable[tuple[str, str]]) -> bytes:
    """The input `given`, an object, with the fields that `templates` make of it, one after the other; all others keep
    their tokens. Raises `ValueError` where that cannot be.
    """
    for name, text in templates:
        try:
            made = _kept_template(text)(_decode(given))
            given = msgspec.json.encode({**_members.decode(given), name: made})
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"{name}={text}: {error}") from None
    return given
