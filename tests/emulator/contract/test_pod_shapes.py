"""Whether a value has the form that an operation takes, and what is said where it has not."""

from typing import Any

import pytest

from orchestrator.emulator.contract.json_shape import Shape, differences

NUMBER = Shape(kind=int, minimum=1)


@pytest.mark.parametrize(
    ("value", "shape", "found"),
    [
        (None, Shape(kind=str, nullable=True), []),
        (None, Shape(kind=str), ["$: got null, want string"]),
        (True, NUMBER, ["$: got boolean, want integer"]),
        (1.5, NUMBER, ["$: got number, want integer"]),
        (0, NUMBER, ["$: minimum: got 0, want 1"]),
        (7, Shape(kind=int), []),
        (True, Shape(kind=bool), []),
        ({"a": 0, "b": 1}, Shape(kind=dict, items=NUMBER), ["$.a: minimum: got 0, want 1"]),
        ({"a": object()}, Shape(kind=dict), []),
        (
            [0, 1, "x"],
            Shape(kind=list, items=NUMBER),
            ["$[0]: minimum: got 0, want 1", "$[2]: got string, want integer"],
        ),
        ([1, 2], Shape(kind=list, items_max=1), ["$: maxItems: got 2, want 1"]),
        ("c", Shape(kind=str, one_of=("a", "b")), ["$: value must be one of 'a', 'b'"]),
        ("", Shape(kind=str, length_min=1), ["$: minLength: got 0, want 1"]),
        (
            {"b": "x", "c": 1, "d": 2},
            Shape(kind=dict, properties={"a": NUMBER, "b": NUMBER}, required=("a",)),
            [
                "$: missing property 'a'",
                "$: additional properties 'c', 'd' not allowed",
                "$.b: got string, want integer",
            ],
        ),
    ],
)
def test_every_difference_is_named_with_its_place(value: Any, shape: Shape, found: list[str]) -> None:
    assert list(differences(value, shape)) == found
