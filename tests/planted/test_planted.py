"""The list of planted faults does not rot: every statement is there, once, and every test too."""

import ast
from pathlib import Path

import pytest

from tests.planted.__main__ import ROOT, main
from tests.planted.faults import FAULTS, Fault
from tests.planted.places import planted
from tests.simulation.scenarios import SCENARIOS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_can_be_planted_and_names_tests_that_exist(fault: Fault) -> None:
    changed = planted(fault.path, fault.old, fault.new, (ROOT / fault.file).read_text())
    ast.parse(changed)
    for test in fault.tests:
        path, _, name = test.partition("::")
        assert f"def {name}" in Path(ROOT / path).read_text(), test
    assert fault.worlds is None or fault.worlds[0] in SCENARIOS


def test_there_are_at_least_ten_of_them_and_each_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 10


WRAPPED = """\
limit = 1

class Line:
    def __init__(self):
        self.limit = limit

    def wait(self, now):
        if now < self.until(
            now,  # an instant
            self.limit,
        ):
            return self.limit
        return limit
"""


def test_a_statement_is_found_in_its_place_however_it_is_wrapped() -> None:
    changed = planted(
        "a.py::Line.wait", "if now < self.until(now, self.limit):", "if now:\n    now += 1\nif True:", WRAPPED
    )

    assert "if now:\n            now += 1\n        if True:\n            return self.limit\n" in changed
    assert planted("a.py::Line.wait", "return limit", "pass", WRAPPED).endswith("self.limit\n        pass\n")
    assert planted("a.py::limit", "1", "2", WRAPPED).startswith("limit = 2\n")


@pytest.mark.parametrize(
    ("place", "old", "message"),
    [
        ("Line.wait", "return 2", "stands there 0 times, not once; most like it is: return limit"),
        ("Line", "limit", "stands there 5 times"),
        ("Line.wayt", "return limit", "no such place as a.py::Line.wayt; most like it: Line.wait"),
        ("Line.wait", "eturn limi", "stands there 0 times"),
    ],
)
def test_what_is_not_there_exactly_once_is_an_error_that_says_what_is_like_it(
    place: str, old: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        planted(f"a.py::{place}", old, "", WRAPPED)


def test_a_name_that_no_fault_has_is_an_error() -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "the moon is green cheese"])
