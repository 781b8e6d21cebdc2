"""Checks a JSON value against what an operation takes, and says every difference in the service's words.

What it takes is declared once, by the struct that it becomes: the types of its members, and their bounds as `Meta`. The
forms are the live service's: `$: missing property 'action'`, `$: additional properties 'x' not allowed`,
`$.action: value must be one of 'start', 'stop'` (as observed).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

_WORDS: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}

_KINDS: Mapping[type, type] = {
    inspect.StrType: str,
    inspect.EnumType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.DictType: dict,
    inspect.StructType: dict,
    inspect.VarTupleType: list,
}
"""As what each type stands in JSON."""


def one_of(*values: str) -> msgspec.Meta:
    """The only values of a text."""
    return msgspec.Meta(extra={"one_of": values})


@cache
def _form(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def differences(value: object, kind: type) -> Iterable[str]:
    """What is wrong with `value` for one that is to be a `kind`; nothing where it fits."""
    return _differences(value, _form(kind), "$")


def _differences(value: object, form: inspect.Type, at: str) -> Iterable[str]:
    if isinstance(form, inspect.UnionType):
        if value is None and form.includes_none:
            return
        form = next(each for each in form.types if not isinstance(each, inspect.NoneType))
    choices: tuple[str, ...] = ()
    if isinstance(form, inspect.Metadata):
        choices, form = (form.extra or {})["one_of"], form.type
    if isinstance(form, inspect.EnumType):
        choices = tuple(form.cls)
    kind = _KINDS[type(form)]
    if not _is(value, kind):
        yield f"{at}: got {_WORDS.get(type(value), 'null')}, want {_WORDS[kind]}"
        return
    if choices and value not in choices:
        wanted = ", ".join(f"'{each}'" for each in choices)
        yield f"{at}: value must be one of {wanted}"
    yield from _of_bounds(value, form, at)
    yield from _of_members(value, form, at)


def _is(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _of_bounds(value: Any, form: inspect.Type, at: str) -> Iterable[str]:
    match form:
        case inspect.VarTupleType(min_length=least, max_length=most):
            got, bound = len(value), "Items"
        case inspect.StrType(min_length=least, max_length=most):
            got, bound = len(value), "Length"
        case inspect.IntType(ge=least, le=most) | inspect.FloatType(ge=least, le=most):
            got, bound = value, "imum"
        case _:
            return
    if most is not None and got > most:
        yield f"{at}: max{bound}: got {got}, want {most}"
    if least is not None and got < least:
        yield f"{at}: min{bound}: got {got}, want {least}"


def _of_members(value: Any, form: inspect.Type, at: str) -> Iterable[str]:
    match form:
        case inspect.StructType():
            yield from _of_names(value, form, at)
            members = {field.encode_name: field.type for field in form.fields}
            inner = [(f"{at}.{name}", value[name], members[name]) for name in value if name in members]
        case inspect.DictType(value_type=of):
            inner = [(f"{at}.{name}", member, of) for name, member in value.items()]
        case inspect.VarTupleType(item_type=of):
            inner = [(f"{at}[{index}]", member, of) for index, member in enumerate(value)]
        case _:
            inner = []
    for place, member, kind in inner:
        yield from _differences(member, kind, place)


def _of_names(value: Mapping[str, object], form: inspect.StructType, at: str) -> Iterable[str]:
    for field in form.fields:
        if field.required and field.encode_name not in value:
            yield f"{at}: missing property '{field.encode_name}'"
    names = {field.encode_name for field in form.fields}
    if unknown := [f"'{name}'" for name in value if name not in names]:
        yield f"{at}: additional properties {', '.join(unknown)} not allowed"
