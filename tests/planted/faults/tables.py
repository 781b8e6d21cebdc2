"""Inputs and outputs that are no use to anybody: mistyped columns, files in the way, values without a form."""

from tests.planted.faults.fault import Fault

_OUTPUTS = "tests/formats/output/test_writers.py"
_MACHINES = "tests/api/hosting/test_files_of_machines.py"
_BOUNDS = "tests/formats/templates/test_bounds.py"
_CORRECTED = "tests/engine/intake/test_corrected_input.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a cell that a spreadsheet would compute is written as it came where that is not wanted",
        path="orchestrator/formats/output/text.py::table_line",
        old="_joined(map(csv_safe_text, texts) if csv_safe else texts,",
        new="_joined(texts,",
        tests=(
            "tests/formats/output/test_writers.py::test_cells_that_a_spreadsheet_would_compute_are_texts_where_that_is_wanted",
        ),
    ),
    Fault(
        name="numbers are made texts for spreadsheets",
        path="orchestrator/formats/output/text.py::csv_safe_text",
        old="or _is_number(text):",
        new=":",
        tests=(
            "tests/formats/output/test_writers.py::test_cells_that_a_spreadsheet_would_compute_are_texts_where_that_is_wanted",
        ),
    ),
    Fault(
        name="a file for spreadsheets is taken for a changed one",
        path="orchestrator/formats/output/readback.py::_TableReader.is_of",
        old="row.value == (safe if self._is_safe else texts)",
        new="row.value == texts",
        tests=(
            "tests/formats/output/test_writers.py::test_a_file_for_spreadsheets_is_known_again_and_a_changed_cell_of_it_too",
        ),
    ),
    Fault(
        name="a mistyped member has an empty column",
        path="orchestrator/formats/output/writers.py::sink_of",
        old="return CheckedMembers(rows, columns) if is_checked else rows",
        new="return rows",
        tests=(
            f"{_OUTPUTS}::test_a_member_that_no_row_has_is_told_with_the_nearest_name",
            f"{_OUTPUTS}::test_a_member_is_missing_that_the_first_thousand_rows_lack",
        ),
    ),
    Fault(
        name="one mistake is told for each row",
        path="orchestrator/errors.py::Problems.add",
        old="if text not in self._lines:",
        new='if (text := f"{text} ({line})") not in self._lines:',
        tests=("tests/test_errors.py::test_of_many_different_problems_the_first_are_shown_and_all_are_counted",),
    ),
    Fault(
        name="a wrong row stays in the run whatever its input says by now",
        path="orchestrator/ledger/runs/intakes.py::Intakes._settle",
        old="after, page = await self._revise(intake, after)",
        new="after, page = None, Corrected()",
        tests=(f"{_CORRECTED}::test_a_failed_row_that_was_edited_is_tried_anew_under_its_id",),
    ),
    Fault(
        name="a corrected row keeps the submissions of the wrong one",
        path="orchestrator/ledger/runs/input_corrections.py::_remove",
        old="await jobs_remove(connection, run, ids, opened)",
        new="await jobs_remove(connection, run, ids, ())",
        tests=(
            "tests/conformance/test_corrections.py::test_a_job_with_the_number_of_one_that_was_dropped_has_none_of_its_submissions",
        ),
    ),
    Fault(
        name="what is at the service is dropped with the rest",
        path="orchestrator/ledger/runs/input_corrections.py::gone_drop_some",
        old="[job for job in found if job.state in CORRECTED], now=now)",
        new="found, now=now)",
        tests=(
            "tests/conformance/test_corrections.py::test_what_is_no_longer_in_the_input_is_dropped_if_it_has_not_succeeded",
        ),
    ),
    Fault(
        name="a job that was sent meanwhile is corrected all the same",
        path="orchestrator/ledger/runs/input_corrections.py::inputs_correct",
        old="if (job := job_of(row)).state in CORRECTED]",
        new="if (job := job_of(row))]",
        tests=(
            "tests/conformance/test_corrections.py::test_what_was_sent_before_it_could_be_corrected_stays_what_it_is",
        ),
    ),
    Fault(
        name="who adds another file is asked whether the first one's jobs go",
        path="orchestrator/api/outcomes/row_input.py::drops",
        old="is_same = request.source == run.source and request.only_rows is None",
        new="is_same = True",
        tests=(f"{_CORRECTED}::test_where_nobody_agrees_wrong_rows_stay_and_it_is_told_how_they_go",),
    ),
    Fault(
        name="what a row carries is lost when its line is read again",
        path="orchestrator/ledger/runs/intake_writes.py::revise_some",
        old='await connection.execute(_METADATA_SET, {**page, "run": intake.run})',
        new="",
        tests=("tests/conformance/test_corrections.py::test_rows_carry_what_is_never_sent_and_say_anew_what_that_is",),
    ),
    Fault(
        name="a flow replaces what its pipeline has not written",
        path="orchestrator/api/flows/stage_settings.py::stage_run_settings",
        old="await check_flow_owns(ledger, flow, dict.fromkeys(files, named))",
        new="",
        tests=("tests/api/runs/test_file_owners.py::test_a_flow_does_not_replace_what_its_pipeline_has_not_written",),
    ),
    Fault(
        name="a run replaces a file that has appeared while it went on",
        path="orchestrator/api/runs/file_owners.py::check_not_appeared",
        old="if path == partial_of(output, ledger.address) or await to_thread.run_sync(_state, path) in (None, was):",
        new="if True:",
        tests=("tests/api/runs/test_file_owners.py::test_a_run_does_not_replace_a_file_that_appears_while_it_goes_on",),
    ),
    Fault(
        name="a column of results that is null in every row is no news",
        path="orchestrator/formats/output/writers.py::OutcomeFile.write",
        old="self._empty.saw(outcome)",
        new="pass",
        tests=("tests/api/runs/test_program.py::test_the_end_of_a_run_tells_of_columns_that_are_null_in_every_row",),
    ),
    Fault(
        name="beside a stream a file of errors appears",
        path="orchestrator/formats/output/atomic_file.py::errors_for",
        old="return NOWHERE if is_stream(output) else errors_beside(output)",
        new="return errors_beside(output)",
        tests=("tests/cli/framework/test_request.py::test_beside_a_stream_errors_go_nowhere_unless_a_file_is_named",),
    ),
    Fault(
        name="an answer behind a byte order mark is no news",
        path="orchestrator/client/http/transport.py::Transport.send",
        old="body=without_mark(carried.body),",
        new="body=carried.body,",
        tests=("tests/api/runs/test_program.py::test_answers_that_begin_with_a_byte_order_mark_are_answers",),
    ),
    Fault(
        name="a webhook behind a byte order mark is no news",
        path="orchestrator/web/webhook_routes.py::Webhooks._notice",
        old="read_record(self._scrub(without_mark(body)), token=token)",
        new="read_record(self._scrub(body), token=token)",
        tests=("tests/web/test_webhook_routes.py::test_a_webhook_behind_a_byte_order_mark_is_the_same_news",),
    ),
    Fault(
        name="an operation of a template is carried out before it is looked at",
        path="orchestrator/formats/templates/jinja_sandbox.py::_Rows.call_binop",
        old="_allowance.spend(checked_operation(operator, left, right))",
        new="",
        tests=(f"{_BOUNDS}::test_an_operation_is_looked_at_before_it_is_carried_out",),
    ),
    Fault(
        name="turns of loops cost nothing",
        path="orchestrator/formats/templates/jinja_sandbox.py::_Bounded._paying",
        old='node.body.insert(0, nodes.ExprStmt(_called("turn", [nodes.Const(size)])))',
        new="",
        tests=(f"{_BOUNDS}::test_turns_that_make_nothing_are_paid_for_too",),
    ),
    Fault(
        name="rows with the same input that are claimed together are all sent",
        path="orchestrator/ledger/jobs/result_reuse.py::_without_others",
        old="each.job.id in first.setdefault(key, {each.job.id}):",
        new="each.job.id in first.get(key, {each.job.id}):",
        tests=("tests/engine/sending/test_once.py::test_rows_with_the_same_input_are_sent_once",),
    ),
    Fault(
        name="who is to send equal rows once takes results of other runs",
        path="orchestrator/ledger/jobs/result_reuse.py::results_reuse",
        old='version=f"once in run {run}")',
        new='version="once")',
        tests=("tests/engine/sending/test_once.py::test_rows_with_the_same_input_are_sent_once",),
    ),
    Fault(
        name="a file of the same name on another machine is taken for the run's",
        path="orchestrator/api/runs/file_owners.py::is_path_of",
        old='return isinstance(path, ObjectUrl) or run.settings.files_on in ("", machine)',
        new="return True",
        tests=(f"{_MACHINES}::test_a_file_of_the_same_name_on_another_machine_is_not_the_run_s",),
    ),
    Fault(
        name="nobody notes on which machine the files of a run are",
        path="orchestrator/api/runs/run_identity.py::settings_of",
        old='files_on = machine if isinstance(request.ledger, LedgerUrl) and not is_stage else ""',
        new='files_on = ""',
        tests=(f"{_MACHINES}::test_a_file_of_the_same_name_on_another_machine_is_not_the_run_s",),
    ),
    Fault(
        name="what a run wrote before machines were noted is nobody's",
        path="orchestrator/api/runs/file_owners.py::is_path_of",
        old='run.settings.files_on in ("", machine)',
        new="run.settings.files_on == machine",
        tests=(f"{_MACHINES}::test_what_was_written_before_machines_were_noted_is_the_run_s_wherever_somebody_looks",),
    ),
    Fault(
        name="an object is another one on another machine",
        path="orchestrator/api/runs/file_owners.py::is_path_of",
        old="isinstance(path, ObjectUrl) or",
        new="",
        tests=("tests/api/runs/test_file_owners.py::test_whose_an_object_is_no_store_is_asked",),
    ),
    Fault(
        name="an export replaces the file of the same name on another machine",
        path="orchestrator/api/admin/run_export.py::_files",
        old="if not all(is_path_of(path, run, here) for path in known[: 1 if errors else 2]):",
        new="if False:",
        tests=("tests/api/admin/test_run_admin.py::test_an_export_goes_to_no_file_of_another_machine",),
    ),
)
