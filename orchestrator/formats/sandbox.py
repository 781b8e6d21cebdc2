"""One template in Jinja's sandbox. Loaded with the first template: most runs have none."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import missing

from orchestrator.formats.templates import instead_of
from orchestrator.user_code import UserCodeError, call

_EXPRESSION: Final = re.compile(r"\s*\{\{(?P<expression>(?:(?!\{\{|\}\}).)*)\}\}\s*", re.DOTALL)


_PLAIN: Final = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a template's author understands by what it says, without its kind."""


class _Rows(SandboxedEnvironment):
    """`row.items` is the field of that name, not a method."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
        return super().getattr(obj, attribute)


class _Missing(StrictUndefined):
    """A field that is not there, in words that name those that are."""

    @property
    def _undefined_message(self) -> str:
        there, name = self._undefined_obj, self._undefined_name
        if isinstance(there, Mapping) and isinstance(name, str):
            return f"there is no {name!r}; {instead_of(name, there)}"
        if there is missing:
            return f"{name!r} is undefined; a field of the row is written row.{name}"
        return super()._undefined_message


_rows: Final = _Rows(undefined=_Missing, keep_trailing_newline=True, autoescape=False)


def compiled(text: str) -> Callable[[Mapping[str, Any]], Any]:
    """What `text` makes of a record, which it calls `row`. Raises `ValueError` where it is no template, and so does the
    template where it makes nothing of a record.
    """
    try:
        if alone := _EXPRESSION.fullmatch(text):
            value_of = call(_rows.compile_expression, alone["expression"], undefined_to_none=False)
            return lambda record: _told(value_of, record)
        render = call(_rows.from_string, text).render
    except UserCodeError as error:
        is_plain = isinstance(error.error, TemplateSyntaxError)
        raise ValueError(f"this is no template: {error.message if is_plain else error}") from None
    return lambda record: _told(render, record)


def _told(apply: Callable[..., Any], record: Mapping[str, Any]) -> Any:
    try:
        value = call(apply, row=record)
        if isinstance(value, Undefined):
            call(value._fail_with_undefined_error)  # noqa: SLF001  there is no other way to have its own words
    except UserCodeError as error:
        raise ValueError(error.message if isinstance(error.error, _PLAIN) else str(error)) from None
    return value
