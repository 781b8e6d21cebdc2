"""Every promise is shown by tests that exist, and the page says what they and the figures say."""

import ast
import re
from pathlib import Path

import pytest

from tests.guarantees import figures, page, record
from tests.guarantees.changes import CHANGES
from tests.guarantees.promise import Promise
from tests.guarantees.promises import PROMISES

COMMAND = "python -m tests.limits --windows 10"


def names_of_tests(path: Path) -> set[str]:
    return {
        node.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_the_promises_are_numbered_through() -> None:
    assert [promise.number for promise in PROMISES] == [f"G{number}" for number in range(1, 19)]


def test_of_each_promise_it_is_said_what_changed() -> None:
    assert list(CHANGES) == [promise.number for promise in PROMISES]


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: str(promise.number))
def test_a_promise_says_what_it_rests_on_what_breaks_it_and_has_tests_that_exist(promise: Promise) -> None:
    assert promise.assumptions
    assert promise.breaks
    assert promise.tests
    for test in promise.tests:
        path, _, name = test.partition("::")
        assert name in names_of_tests(figures.ROOT / path), test


def test_the_page_is_what_the_command_writes() -> None:
    assert page.PATH.read_text() == page.text(figures.recorded()), "run `python -m tests.guarantees`"


def test_every_recorded_figure_was_measured_by_a_command_that_exists_and_stands_on_the_page() -> None:
    for module, found in figures.recorded().items():
        path = figures.ROOT.joinpath("tests", *module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
        for figure in found:
            assert figures.file_of(figure.command).stem == module
            assert figure.row in page.PATH.read_text()


def test_a_figure_measured_again_replaces_the_one_of_its_name_and_leaves_the_others(tmp_path: Path) -> None:
    record("share of /run", 98.123456789, "%", COMMAND, at_least=97.5, folder=tmp_path)
    record("429s", 0, "", COMMAND, folder=tmp_path)
    record("share of /run", 97.2, "%", COMMAND, at_least=97.5, folder=tmp_path)

    found = figures.recorded(tmp_path)["limits"]
    assert [(figure.name, figure.value) for figure in found] == [("share of /run", 97.2), ("429s", 0)]
    assert found[0].row.startswith("| share of /run | 97.2 % | **missed**: >= 97.5 % | `python -m tests.limits")
    assert re.search(r"\| 0 \|  \| .* \| \d{4}-\d\d-\d\d \|$", found[1].row)


def test_only_commands_of_the_tests_leave_figures(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no command of the kind"):
        record("jobs", 1, "", "make bench", folder=tmp_path)


def test_figures_of_no_promise_stand_at_the_end_of_the_page(tmp_path: Path) -> None:
    record("polling: CPU per job", 0.8, "ms", "python -m tests.benchmarks", at_most=0.85, folder=tmp_path)
    record("allowance: 429s", 0, "requests", "python -m tests.benchmarks", at_most=0, folder=tmp_path)
    text = page.text(figures.recorded(tmp_path))

    own, rest = text.split("## Further figures")
    assert "| allowance: 429s | 0 requests | <= 0 requests |" in own
    assert "| polling: CPU per job | 0.800 ms | <= 0.850 ms |" in rest
