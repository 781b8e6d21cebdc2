"""Which tests coverage is measured by."""

from tests.measuring import LIST, is_whole_program, name_of
from tests.measuring.__main__ import LEAST_S, Part, left_out

CHEAP, DEAR, CORE, CORE_TOO, ALONE = (
    "tests/web/test_a.py::test_cheap",
    "tests/engine/test_a.py::test_dear",
    "tests/core/test_a.py::test_core",
    "tests/core/test_a.py::test_core_too",
    "tests/engine/test_a.py::test_alone",
)


def lines(name: str, *numbers: int) -> set[Part]:
    return {(f"orchestrator/{name}.py", number, 0) for number in numbers}


def test_whoever_costs_most_for_what_others_cover_is_left_out() -> None:
    covers = {CHEAP: lines("web/a", 1, 2), DEAR: lines("web/a", 1, 2)}

    assert left_out(covers, {CHEAP: 1.0, DEAR: 2.0}, 2) == [DEAR]


def test_nobody_is_left_out_who_alone_covers_more_than_may_be_lost() -> None:
    covers = {ALONE: lines("engine/a", *range(9)), DEAR: lines("engine/b", 1), CHEAP: lines("engine/c", *range(90))}
    costs_s = {ALONE: 9.0, DEAR: 9.0, CHEAP: 9.0}

    assert left_out(covers, costs_s, 100) == [DEAR]
    assert left_out(covers, costs_s, 104) == []


def test_the_core_stays_covered_by_its_own_tests_whoever_else_covers_it() -> None:
    covers = {CORE: lines("core/a", 1), CORE_TOO: lines("core/a", 1), DEAR: lines("core/a", 1)}

    assert left_out(covers, {CORE: 1.0, CORE_TOO: 2.0, DEAR: 3.0}, 1) == [CORE_TOO, DEAR]


def test_who_takes_next_to_nothing_is_measured() -> None:
    assert left_out({CHEAP: set()}, {CHEAP: LEAST_S / 2}, 1) == []


def test_the_list_names_functions_that_would_be_measured_otherwise_each_once() -> None:
    names = LIST.read_text().splitlines()

    assert names == sorted(set(names))
    assert [name for name in names if is_whole_program(name) or name_of(name) != name] == []
