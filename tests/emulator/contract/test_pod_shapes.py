"""Whether a value has the form that an operation takes, and what is said where it has not."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest

from orchestrator.emulator.contract.json_shape import differences, one_of

AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]


class Body(msgspec.Struct, kw_only=True):
    text: str | None = None
    number: AtLeastOne | msgspec.UnsetType = msgspec.UNSET
    whole: int = 0
    flag: bool = False
    numbers: Mapping[str, AtLeastOne] = {}
    items: tuple[AtLeastOne, ...] = ()
    few: Annotated[tuple[int, ...], msgspec.Meta(max_length=1)] = ()
    choice: Annotated[str, one_of("b", "a")] = "a"
    name: Annotated[str, msgspec.Meta(min_length=1)] = "x"
    share: Annotated[float, msgspec.Meta(ge=0.5)] = 1.0


class Two(msgspec.Struct, kw_only=True):
    a: AtLeastOne
    b: AtLeastOne = 1


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"text": None}, []),
        ({"number": None}, ["$.number: got null, want integer"]),
        ({"number": True}, ["$.number: got boolean, want integer"]),
        ({"number": 1.5}, ["$.number: got number, want integer"]),
        ({"number": 0}, ["$.number: minimum: got 0, want 1"]),
        ({"whole": 7, "flag": True, "share": 1}, []),
        ({"share": 0}, ["$.share: minimum: got 0, want 0.5"]),
        ({"numbers": {"a": 0, "b": 1}}, ["$.numbers.a: minimum: got 0, want 1"]),
        ({"items": [0, 1, "x"]}, ["$.items[0]: minimum: got 0, want 1", "$.items[2]: got string, want integer"]),
        ({"few": [1, 2]}, ["$.few: maxItems: got 2, want 1"]),
        ({"choice": "c"}, ["$.choice: value must be one of 'b', 'a'"]),
        ({"name": ""}, ["$.name: minLength: got 0, want 1"]),
    ],
)
def test_every_difference_is_named_with_its_place(value: Any, found: list[str]) -> None:
    assert list(differences(value, Body)) == found


def test_what_is_missing_and_what_is_too_much_is_told_first() -> None:
    assert list(differences({"b": "x", "c": 1, "d": 2}, Two)) == [
        "$: missing property 'a'",
        "$: additional properties 'c', 'd' not allowed",
        "$.b: got string, want integer",
    ]
