"""Inputs and outputs that are no use to anybody: mistyped columns, files in the way, values without a form."""

from tests.planted.faults.fault import Fault

_OUTPUTS = "tests/formats/test_outcome_files.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a mistyped member has an empty column",
        path="orchestrator/formats/outcome_files.py",
        old="    return _CheckedRows(rows, MissingMembers(form.columns)) if is_checked else rows\n",
        new="    return rows\n",
        tests=(
            f"{_OUTPUTS}::test_a_member_that_no_row_has_is_told_with_the_nearest_name",
            f"{_OUTPUTS}::test_a_member_is_missing_that_the_first_thousand_rows_lack",
        ),
    ),
    Fault(
        name="one mistake is told for each row",
        path="orchestrator/errors.py",
        old="        if text not in self._lines:\n",
        new='        if (text := f"{text} ({line})") not in self._lines:\n',
        tests=("tests/test_errors.py::test_of_many_different_problems_the_first_are_shown_and_all_are_counted",),
    ),
)
