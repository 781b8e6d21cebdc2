"""Programs that use the public names: their engine, their inputs, and what a run remembers and shows meanwhile."""

from tests.planted.faults.fault import Fault

PROGRAM = "tests/api/python/test_orchestrator.py"
PUMP = "tests/engine/intake/test_row_pump.py"
CONTINUED = "tests/engine/hosting/test_continued.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="the place of a result in the input is counted from 1",
        path="orchestrator/api/python/results.py::Result.of",
        old="index=job.line - 1,",
        new="index=job.line,",
        tests=("tests/api/python/test_results.py::test_a_result_has_its_input_and_its_place_in_the_input",),
    ),
    Fault(
        name="a run that a program has under way keeps the settings that it began with",
        path="orchestrator/api/python/ledger_session.py::LedgerSession._session",
        old="runs.settings_of[run.id] = run.settings",
        new="runs.settings_of.setdefault(run.id, run.settings)",
        tests=(f"{PROGRAM}::test_the_same_name_goes_on_with_the_settings_that_were_given_last",),
    ),
    Fault(
        name="results end while inputs are still being read",
        path="orchestrator/api/python/ledger_session.py::AttachedRun.is_over",
        old="(self.readers == 0 and self.standing.is_over)",
        new="self.standing.is_over",
        tests=(f"{PROGRAM}::test_the_first_rows_are_sent_while_later_ones_are_still_to_come",),
    ),
    Fault(
        name="a second Ctrl-C in map waits like the first",
        path="orchestrator/api/python/sync.py::_Passing.hurry",
        old="portal.start_task_soon(self._hurry)",
        new="pass",
        tests=("tests/system/test_scripts.py::test_a_second_ctrl_c_in_map_leaves_at_once_and_the_same_script_goes_on",),
    ),
    Fault(
        name="the last rows of an input are left in the buffer",
        path="orchestrator/engine/intake/row_pump.py::RowPump._taken",
        old="return rows if rows or not self._has_ended else None",
        new="return rows if not self._has_ended else None",
        tests=(
            f"{PUMP}::test_rows_come_in_order_and_no_more_are_read_than_the_buffer_holds",
            f"{PUMP}::test_what_the_values_raise_is_raised_when_all_before_it_is_written",
        ),
    ),
    Fault(
        name="rows before an error of the input are not written",
        path="orchestrator/engine/intake/row_pump.py::RowPump.into",
        old="if rows:",
        new="if rows and self._error is None:",
        tests=(f"{PUMP}::test_what_the_values_raise_is_raised_when_all_before_it_is_written",),
    ),
    Fault(
        name="who reads an input is not told that nobody writes any more",
        path="orchestrator/engine/intake/row_pump.py::RowPump.into",
        old="finally:\n    self._leave()",
        new="finally:\n    pass",
        tests=(f"{PUMP}::test_who_writes_no_more_ends_who_reads_and_waits_for_no_generator",),
    ),
    Fault(
        name="what a run remembers goes before what the command says",
        path="orchestrator/api/runs/run_defaults.py::as_before",
        old="if not is_chosen and value != now:",
        new="if value != now:",
        tests=(f"{CONTINUED}::test_the_same_command_without_a_flag_goes_on_with_what_the_last_one_said",),
    ),
    Fault(
        name="the file of another run is overwritten where an unknown one may be",
        path="orchestrator/api/runs/run_defaults.py::_check_files",
        old="if owner is not None and owner != run:",
        new="if owner is not None and owner != run and not request.overwrite:",
        tests=(f"{CONTINUED}::test_a_file_that_another_run_has_written_is_not_replaced_whatever_is_said",),
    ),
    Fault(
        name="what ends while the growing file is made anew stands there twice",
        path="orchestrator/api/foreground/partial_results.py::PartialResults._new",
        old="if job is not None and job.job not in self._known:",
        new="if job is not None:",
        tests=("tests/api/foreground/test_partial_results.py::test_what_ends_while_it_is_made_anew_stands_there_once",),
    ),
    Fault(
        name="what ends while the growing file is made anew is missing there",
        path="orchestrator/api/foreground/partial_results.py::PartialResults._grow",
        old="await self._write(self._so_far(began_at))",
        new="await self._write(self._so_far(began_at))\nself._place = await self._ledger.reports.feed.end()",
        tests=("tests/api/foreground/test_partial_results.py::test_what_ends_while_it_is_made_anew_stands_there_once",),
    ),
    Fault(
        name="the end of what a dead process wrote stays in the growing file",
        path="orchestrator/api/foreground/partial_results.py::_opened",
        old="os.O_CREAT | os.O_TRUNC |",
        new="os.O_CREAT |",
        tests=(
            "tests/api/foreground/test_partial_results.py::test_the_next_process_makes_it_anew_and_what_goes_wrong_with_it_is_told_once",
        ),
    ),
)
