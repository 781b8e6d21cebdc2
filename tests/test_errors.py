"""Errors: what they say, and with which exit code they end the program."""

import pytest

from orchestrator import errors
from orchestrator.errors import (
    PROBLEMS_SHOWN_MAX,
    InputError,
    LedgerBusyError,
    LedgerVersionError,
    NotSent,
    OrchestratorError,
    Problems,
    StoppedError,
    StorageError,
    Unanswered,
    UsageError,
)

CLASSES = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]


@pytest.mark.parametrize("each", [each for each in CLASSES if each is not InputError])
def test_an_error_says_what_its_docstring_says_unless_told_better(each: type[OrchestratorError]) -> None:
    assert str(each()) == each.__doc__
    assert str(each("better")) == "better"


@pytest.mark.parametrize("each", CLASSES)
def test_there_is_one_base(each: type[Exception]) -> None:
    assert issubclass(each, OrchestratorError)


@pytest.mark.parametrize(
    ("each", "code"),
    [
        (OrchestratorError, 70),
        (UsageError, 2),
        (InputError, 2),
        (LedgerBusyError, 4),
        (LedgerVersionError, 2),
        (StoppedError, 3),
        (StorageError, 3),
        (NotSent, 70),
        (Unanswered, 70),
    ],
)
def test_the_exit_code_says_what_can_be_done(each: type[OrchestratorError], code: int) -> None:
    assert each.exit_code == code


def test_one_bad_line_is_one_problem() -> None:
    error = InputError("in.jsonl", ["line 3: no input"], 1)

    assert str(error) == "in.jsonl: 1 problem; nothing was sent\nline 3: no input"
    assert (error.source, error.problems, error.total) == ("in.jsonl", ("line 3: no input",), 1)


def test_of_many_bad_lines_the_first_are_shown_and_the_rest_is_counted() -> None:
    lines = [f"line {n}: bad" for n in range(1, 31)]
    text = str(InputError("in.jsonl", lines, 45, "see --help")).splitlines()

    assert text[0] == "in.jsonl: 45 problems; nothing was sent"
    assert text[1:-2] == lines[:PROBLEMS_SHOWN_MAX]
    assert text[-2:] == [f"... and {45 - PROBLEMS_SHOWN_MAX} more", "see --help"]


def test_bad_lines_with_the_same_problem_are_told_as_one() -> None:
    problems = Problems()
    for line in (9, 7, 3, 5, 8):
        problems.add(line, "there is no 'sku'; did you mean 'skus'? this row has skus, text")
    problems.add(4, "not JSON")
    error = problems.error("in.csv", "line {}".format)

    assert str(error).splitlines() == [
        "in.csv: 6 problems; nothing was sent",
        "line 3, line 5, line 7 and 2 more: there is no 'sku'; did you mean 'skus'? this row has skus, text",
        "line 4: not JSON",
    ]


def test_of_many_different_problems_the_first_are_shown_and_all_are_counted() -> None:
    problems = Problems()
    for line in range(1, 31):
        problems.add(line, f"bad {line}")
        problems.add(line + 100, f"bad {line}")
    lines = str(problems.error("in.csv", "line {}".format)).splitlines()

    assert lines[1] == "line 1, line 101: bad 1"
    assert len(lines) == 1 + PROBLEMS_SHOWN_MAX + 1
    assert lines[-1] == f"... and {60 - 2 * PROBLEMS_SHOWN_MAX} more"
