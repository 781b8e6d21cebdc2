"""Templates that make a field of an input from a record: `{{ row.caption }}`, in Jinja's sandbox.

A name that is not there is an error, never an empty text. A template that is one expression and nothing else gives its
value as it is, a number as a number; every other one gives text.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment

from orchestrator import declared_inputs
from orchestrator.errors import UsageError

_EXPRESSION: Final = re.compile(r"\s*\{\{(?P<expression>(?:(?!\{\{|\}\}).)*)\}\}\s*", re.DOTALL)

Template = Callable[[Mapping[str, Any]], Any]
"""From a record to a value. Raises `ValueError` in words for the template's author."""


class _Rows(SandboxedEnvironment):
    """`row.items` is the field of that name, not a method."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


_rows: Final = _Rows(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False)


def check_templates(templates: Iterable[tuple[str, str]]) -> None:
    """Raises `UsageError` where one of these is no template."""
    for name, text in templates:
        try:
            template_of(text)
        except ValueError as error:
            raise UsageError(f"{declared_inputs.MAP} {name}={text}: {error}") from None


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


def template_of(text: str) -> Template:
    """What `text` makes of a record, which it calls `row`. Raises `ValueError` where it is no template."""
    try:
        if alone := _EXPRESSION.fullmatch(text):
            value_of = _rows.compile_expression(alone["expression"], undefined_to_none=False)
            return lambda record: _told(value_of, record)
        render = _rows.from_string(text).render
    except TemplateSyntaxError as error:
        raise ValueError(f"this is no template: {error.message}") from None
    return lambda record: _told(render, record)


_kept_template: Final = lru_cache(maxsize=100)(template_of)


def _told(apply: Callable[..., Any], record: Mapping[str, Any]) -> Any:
    try:
        value = apply(row=record)
        if isinstance(value, Undefined):
            value._fail_with_undefined_error()  # noqa: SLF001  there is no other way to have its own words
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(_words(str(error), record)) from None
    return value


def _words(said: str, record: Mapping[str, Any]) -> str:
    if "has no attribute" in said or "is undefined" in said:
        names = ", ".join(map(str, record)) or "nothing"
        row = said.replace("'dict object'", "the row")
        return f"{row}; it has {names:.200}"
    return said
