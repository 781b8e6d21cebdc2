"""The list of planted faults does not rot: every text is there, once, and every test too."""

import ast
from pathlib import Path

import pytest

from tests.planted.__main__ import ROOT, planted
from tests.planted.faults import FAULTS, Fault
from tests.simulation.scenarios import SCENARIOS


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_can_be_planted_and_names_tests_that_exist(fault: Fault) -> None:
    changed = planted(fault, (ROOT / fault.path).read_text())
    ast.parse(changed)
    for test in fault.tests:
        path, _, name = test.partition("::")
        assert f"def {name}" in Path(ROOT / path).read_text(), test
    assert fault.worlds is None or fault.worlds[0] in SCENARIOS


def test_there_are_at_least_ten_of_them_and_each_has_a_name_of_its_own() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 10


def test_a_text_that_is_not_there_exactly_once_is_an_error() -> None:
    with pytest.raises(ValueError, match="occurs 0 times, not once"):
        planted(FAULTS[0], "")
    with pytest.raises(ValueError, match="occurs 2 times, not once"):
        planted(FAULTS[0], FAULTS[0].old * 2)
