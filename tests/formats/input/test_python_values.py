"""Rows from a program's values: the same as those of a file that says the same."""

from collections import OrderedDict
from io import BytesIO
from typing import Any

import pytest

from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.text.durations import Policy
from orchestrator.formats.input.jsonl import RowReader
from orchestrator.formats.input.python_values import JobParts, ValueReader
from orchestrator.formats.input.rows import Row, RowProblem
from tests.formats.input_files import read_rows


def reader() -> ValueReader:
    mappings, jobs = (RowReader(RowVariables({"KEY": "secret"}, ("KEY",)), Policy(), 0, 1_000) for _ in range(2))
    return ValueReader(mappings, jobs)


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ({"n": 1}, b'{"n":1}'),
        ({"n": 1, "custom_id": "one"}, b'{"n":1,"custom_id":"one"}'),
        (OrderedDict(b=None, a=[1, 2.5, "x"]), b'{"b":null,"a":[1,2.5,"x"]}'),
        ({"input": {"n": 1}, "custom_id": "one"}, b'{"input":{"n":1},"custom_id":"one"}'),
        (JobParts(input={"n": 1}), b'{"input":{"n":1}}'),
        (JobParts(input={"input": {"n": 1}}), b'{"input":{"input":{"n":1}}}'),
        (
            JobParts(input={"n": 1}, custom_id="one", policy=Policy(ttl_ms=60_000)),
            b'{"input":{"n":1},"custom_id":"one","policy":{"ttl":60000}}',
        ),
    ],
)
def test_a_value_is_the_row_that_a_line_which_says_the_same_is(value: object, line: bytes) -> None:
    [row] = read_rows(BytesIO(line), environ={})
    assert isinstance(row, Row)
    assert reader().read(1, value) == row


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "str, not a dict or a Job"),
        (["n"], "list, not a dict or a Job"),
        ({}, "the input is empty"),
        ({"n": object()}, "not JSON: Encoding objects of type object is unsupported"),
        ({"n": "\ud800"}, "not JSON: "),
        ({"n": [1, {"m": float("inf")}]}, "NaN or an infinity is no number there"),
        ({"n": 1, "custom_id": 5}, "custom_id must be a string, not a number"),
        (JobParts(input=5), "not JSON: the input of a Job must be a dict, not int"),  # type: ignore[arg-type]
        (JobParts(input={"n": 1}, s3_config={"accessSecret": "not by name"}), "s3Config"),
        ({"n": "x" * 2_000}, "over the limit of 1,000"),
    ],
)
def test_what_is_no_row_is_a_problem_with_its_number(value: Any, said: str) -> None:
    found = reader().read(7, value)
    assert isinstance(found, RowProblem)
    assert found.line == 7
    assert said in found.text


def test_nesting_without_end_is_a_problem() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    found = reader().read(1, endless)
    assert isinstance(found, RowProblem)
    assert "nested" in found.text


def test_jobs_and_dicts_may_stand_side_by_side_and_none_is_fine() -> None:
    read = reader().read
    for value in ({"n": None}, JobParts(input={"n": 2}), {"n": 3}):
        assert isinstance(read(1, value), Row)
