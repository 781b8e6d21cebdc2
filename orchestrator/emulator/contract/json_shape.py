"""Checks a JSON value against what an operation takes, and says every difference in the service's words.

The forms are the live service's: `$: missing property 'action'`, `$: additional properties 'x' not allowed`,
`$.action: value must be one of 'start', 'stop'` (as observed).
"""

from collections.abc import Iterable, Mapping

import msgspec

_TYPES: Mapping[type, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a value must be; `kind` is its Python type, the rest applies to some kinds only."""

    kind: type
    nullable: bool = False
    one_of: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: int | None = None
    length_min: int = 0
    length_max: int | None = None
    items_min: int = 0
    items_max: int | None = None
    items: "Shape | None" = None
    """Of a list's members, or of an object's values where `properties` is None; None takes any."""
    properties: Mapping[str, "Shape"] | None = None
    required: tuple[str, ...] = ()


def differences(value: object, shape: Shape | None, at: str = "$") -> Iterable[str]:
    """What is wrong with `value`, which stands at `at`; nothing where it fits, or where any value does (None)."""
    if shape is None or (value is None and shape.nullable):
        return
    if not _is(value, shape.kind):
        yield f"{at}: got {_TYPES.get(type(value), 'null')}, want {_TYPES[shape.kind]}"
        return
    match value:
        case dict():
            yield from _of_object(value, shape, at)
        case list():
            yield from _of_list(value, shape, at)
        case str():
            yield from _of_text(value, shape, at)
        case int() | float():
            yield from _of_number(value, shape, at)
        case _:
            pass


def _is(value: object, kind: type) -> bool:
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, int | float) if kind is float else isinstance(value, kind)


def _of_number(value: float, shape: Shape, at: str) -> Iterable[str]:
    if shape.minimum is not None and value < shape.minimum:
        yield f"{at}: minimum: got {value}, want {shape.minimum}"
    if shape.maximum is not None and value > shape.maximum:
        yield f"{at}: maximum: got {value}, want {shape.maximum}"


def _of_object(value: Mapping[str, object], shape: Shape, at: str) -> Iterable[str]:
    if shape.properties is None:
        for name, member in value.items():
            yield from differences(member, shape.items, f"{at}.{name}")
        return
    for name in shape.required:
        if name not in value:
            yield f"{at}: missing property '{name}'"
    if unknown := [f"'{name}'" for name in value if name not in shape.properties]:
        yield f"{at}: additional properties {', '.join(unknown)} not allowed"
    for name, member in value.items():
        if name in shape.properties:
            yield from differences(member, shape.properties[name], f"{at}.{name}")


def _of_list(value: list[object], shape: Shape, at: str) -> Iterable[str]:
    if shape.items_max is not None and len(value) > shape.items_max:
        yield f"{at}: maxItems: got {len(value)}, want {shape.items_max}"
    if len(value) < shape.items_min:
        yield f"{at}: minItems: got {len(value)}, want {shape.items_min}"
    for index, member in enumerate(value):
        yield from differences(member, shape.items, f"{at}[{index}]")


def _of_text(value: str, shape: Shape, at: str) -> Iterable[str]:
    if shape.one_of and value not in shape.one_of:
        choices = ", ".join(f"'{each}'" for each in shape.one_of)
        yield f"{at}: value must be one of {choices}"
    if len(value) < shape.length_min:
        yield f"{at}: minLength: got {len(value)}, want {shape.length_min}"
    if shape.length_max is not None and len(value) > shape.length_max:
        yield f"{at}: maxLength: got {len(value)}, want {shape.length_max}"
