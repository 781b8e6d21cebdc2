"""Inputs and outputs that are no use to anybody: mistyped columns, files in the way, values without a form."""

from tests.planted.faults.fault import Fault

_OUTPUTS = "tests/formats/test_outcome_files.py"
_CORRECTED = "tests/engine/test_corrected_input.py"

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
    Fault(
        name="a wrong row stays in the run whatever its input says by now",
        path="orchestrator/ledger/intakes.py",
        old="            after, page = await self._revise(intake, after)\n",
        new="            after, page = None, Corrected()\n",
        tests=(f"{_CORRECTED}::test_a_failed_row_that_was_edited_is_tried_anew_under_its_id",),
    ),
    Fault(
        name="a corrected row keeps the submissions of the wrong one",
        path="orchestrator/ledger/corrections.py",
        old="    await jobs_remove(connection, run, ids, opened)\n",
        new="    await jobs_remove(connection, run, ids, ())\n",
        tests=(
            "tests/conformance/test_corrections.py::test_a_job_with_the_number_of_one_that_was_dropped_has_none_of_its_submissions",
        ),
    ),
    Fault(
        name="what is at the service is dropped with the rest",
        path="orchestrator/ledger/corrections.py",
        old="[job for job in found if job.state in CORRECTED], now=now)\n",
        new="found, now=now)\n",
        tests=(
            "tests/conformance/test_corrections.py::test_what_is_no_longer_in_the_input_is_dropped_if_it_has_not_succeeded",
        ),
    ),
    Fault(
        name="a job that was sent meanwhile is corrected all the same",
        path="orchestrator/ledger/corrections.py",
        old="if (job := job_of(row)).state in CORRECTED]\n",
        new="if (job := job_of(row))]\n",
        tests=(
            "tests/conformance/test_corrections.py::test_what_was_sent_before_it_could_be_corrected_stays_what_it_is",
        ),
    ),
    Fault(
        name="who adds another file is asked whether the first one's jobs go",
        path="orchestrator/api/taking_in.py",
        old="    is_same = request.source == run.source and request.only_rows is None\n",
        new="    is_same = True\n",
        tests=(f"{_CORRECTED}::test_where_nobody_agrees_wrong_rows_stay_and_it_is_told_how_they_go",),
    ),
    Fault(
        name="what a row carries is lost when its line is read again",
        path="orchestrator/ledger/intakes.py",
        old='    await connection.execute(_METADATA_SET, {**page, "run": intake.run})\n',
        new="",
        tests=("tests/conformance/test_corrections.py::test_rows_carry_what_is_never_sent_and_say_anew_what_that_is",),
    ),
)
