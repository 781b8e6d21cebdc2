"""The Batch API: what it takes, for whom, and what becomes of it."""

from tests.planted.faults.fault import Fault

_BATCHES = "tests/batch_api/test_batches.py"
_FILES = "tests/batch_api/test_files.py"
_HOSTILE = "tests/batch_api/test_hostile_uploads.py"
_KILLS = "tests/batch_api/test_kills.py"
_LEDGER = "tests/conformance/test_posted_batches.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="the Batch API shows a file to everybody who knows its id",
        path="orchestrator/ledger/posted/posted_files.py::PostedFiles.one",
        old='_FILES.where(posted_files.c.id == bindparam("id"), posted_files.c.owner == bindparam("owner"))',
        new='_FILES.where(posted_files.c.id == bindparam("id"))',
        tests=(f"{_FILES}::test_each_key_has_its_own_files_and_a_wrong_one_none",),
        worlds=("posted", 0, 1),
    ),
    Fault(
        name="the Batch API takes the beginning of a key for the key",
        path="orchestrator/batch_api/access.py::KeyCheck._owner",
        old="if compare_digest(sent, key.encode())",
        new="if sent and key.encode().startswith(sent)",
        tests=(f"{_FILES}::test_each_key_has_its_own_files_and_a_wrong_one_none",),
    ),
    Fault(
        name="the Batch API without keys answers pages in a browser",
        path="orchestrator/batch_api/access.py::_is_of_a_page",
        old='return "origin" in headers or "sec-fetch-site" in headers or not is_our_host(headers.get("host", ""), None)',
        new="return False",
        tests=(f"{_FILES}::test_without_keys_no_page_in_a_browser_is_answered",),
    ),
    Fault(
        name="an upload is measured once all of it has come",
        path="orchestrator/batch_api/uploads.py::_Upload._add",
        old="if self._size > self._store.settings.file_bytes_max:",
        new="if False:",
        tests=(f"{_HOSTILE}::test_an_upload_without_end_is_refused_once_it_is_too_long_and_read_no_further",),
    ),
    Fault(
        name="a form that was cut is taken for whole",
        path="orchestrator/batch_api/uploads.py::_Upload.receive",
        old="if not self._form.is_complete:",
        new="if False:",
        tests=(f"{_HOSTILE}::test_what_is_no_form_with_one_file_is_refused_and_leaves_nothing",),
    ),
    Fault(
        name="a file that does not fit in stays on the disk",
        path="orchestrator/api/batch_api/file_store.py::FileStore.add",
        old="if not is_added:\n    await self._unlink([file.id])",
        new="if not is_added:\n    pass",
        tests=(f"{_FILES}::test_what_came_while_other_things_filled_the_room_leaves_nothing_on_the_disk",),
    ),
    Fault(
        name="uploads that come at once are each promised the same room",
        path="orchestrator/api/batch_api/file_store.py::FileStore.room",
        old="self._on_their_way += coming",
        new="pass",
        tests=(f"{_HOSTILE}::test_room_is_kept_for_what_is_coming_and_given_back_where_it_never_came",),
    ),
    Fault(
        name="who sends a byte now and then keeps his connection for days",
        path="orchestrator/batch_api/uploads.py::_Upload._next",
        old="min(SILENT_S_MAX, slow_in_s)",
        new="SILENT_S_MAX",
        tests=(f"{_HOSTILE}::test_who_sends_a_byte_now_and_then_is_given_up_and_who_is_only_slow_is_not",),
    ),
    Fault(
        name="a batch is refused for its first bad line alone",
        path="orchestrator/formats/input/openai_requests.py::_Check.add",
        old="if len(self.errors) < ERRORS_MAX:",
        new="if not self.errors:",
        tests=(f"{_BATCHES}::test_what_is_wrong_with_a_file_is_told_by_lines_and_nothing_is_sent",),
    ),
    Fault(
        name="a late batch goes on",
        path="orchestrator/core/batch_api/posted_batch.py::next_posted_step",
        old="batch.state is not PostedState.IN_PROGRESS or now >= batch.expires_at",
        new="batch.state is not PostedState.IN_PROGRESS",
        tests=(
            "tests/core/batch_api/test_posted_batch.py::test_the_next_step_follows_from_its_state_its_run_and_the_time",
        ),
        worlds=("posted", 2, 1),
    ),
    Fault(
        name="an answer that refuses a request stands among the results",
        path="orchestrator/api/batch_api/batch_results.py::_Sorting._add",
        old="self._output if answer.status == OK else self._errors",
        new="self._output",
        tests=(f"{_BATCHES}::test_a_batch_is_a_run_whose_files_have_each_request_once",),
        worlds=("posted", 0, 1),
    ),
    Fault(
        name="who writes the files of a batch anew calls them otherwise",
        path="orchestrator/ledger/posted/posted_batches.py::PostedBatches.name_files",
        old=".where(posted_batches.c.output_file.is_(None))",
        new="",
        tests=(f"{_LEDGER}::test_a_batch_goes_from_state_to_state_and_its_end_comes_with_its_files",),
    ),
    Fault(
        name="a batch ends whatever has become of it",
        path="orchestrator/ledger/posted/posted_batches.py::PostedBatches._move",
        old="if not (await connection.execute(change)).rowcount:",
        new="if False:",
        tests=(f"{_LEDGER}::test_a_batch_goes_from_state_to_state_and_its_end_comes_with_its_files",),
    ),
    Fault(
        name="a batch whose run was deleted counts as late",
        path="orchestrator/core/batch_api/posted_batch.py::_step_without_run",
        old="return PostedStep.END_EMPTY if batch.state is PostedState.CANCELLING else PostedStep.GIVE_UP",
        new="return PostedStep.END_EMPTY",
        tests=(f"{_BATCHES}::test_a_batch_fails_whose_run_is_deleted",),
    ),
    Fault(
        name="content that a killed process has left is kept",
        path="orchestrator/api/batch_api/file_store.py::FileStore._sweep",
        old="if each not in known",
        new="if False",
        tests=(f"{_FILES}::test_a_file_that_has_expired_is_gone_and_so_is_what_a_killed_process_has_left",),
        worlds=("posted", 14, 1),
    ),
    Fault(
        name="a file that is deleted as a batch of it is made ends the process",
        path="orchestrator/api/batch_api/batch_runs.py::BatchRuns.validate",
        old="except FileNotFoundError:  # deleted as the batch was made, or expired",
        new="except ZeroDivisionError:",
        tests=(
            "tests/simulation/test_posted.py::test_each_batch_ends_once_and_each_request_has_one_line_whoever_is_killed",
        ),
        worlds=("posted", 1, 1),
    ),
    Fault(
        name="how batches end is not counted",
        path="orchestrator/ledger/posted/posted_batches.py::PostedBatches._move",
        old="if to in POSTED_ENDS:",
        new="if False:",
        tests=(f"{_LEDGER}::test_a_batch_goes_from_state_to_state_and_its_end_comes_with_its_files",),
    ),
    Fault(
        name="a file of a batch that cannot be written ends the process",
        path="orchestrator/api/batch_api/file_store.py::FileStore.coming",
        old="raise StorageError(error.message) from error",
        new="raise",
        tests=(f"{_BATCHES}::test_a_batch_whose_files_cannot_be_written_yet_is_finished_later",),
    ),
)
