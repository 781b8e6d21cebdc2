"""Members of outputs that become files: names, folders, links, and disks that take no more."""

from tests.planted.faults.fault import Fault

SAVER = "tests/engine/collecting/test_output_saver.py"
FILES = "tests/formats/output/test_saved_files.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what is in an id leads out of its folder",
        path="orchestrator/core/outputs/save_rules.py::_name",
        old='safe = _UNSAFE.sub(_escaped, custom_id) or "%"',
        new='safe = custom_id or "%"',
        tests=("tests/core/outputs/test_save_rules.py::test_an_id_leads_nowhere",),
    ),
    Fault(
        name="a file of the same size is taken for the one that was to be saved",
        path="orchestrator/formats/output/saved_files.py::NewFile._is_same",
        old='return file_digest(file, "sha256").hexdigest() == self._hash.hexdigest()',
        new="return True",
        tests=(f"{FILES}::test_one_of_the_same_size_is_told_apart_by_what_is_in_it",),
        worlds=("saves", 0, 1),
    ),
    Fault(
        name="an object takes the place of somebody else's",
        path="orchestrator/formats/output/saved_objects.py::NewObject._has_appeared",
        old="ObjectReplacement(url, is_new=True)",
        new="ObjectReplacement(url)",
        tests=("tests/system/test_saved_objects.py::test_the_same_again_is_the_same_object",),
    ),
    Fault(
        name="a symbolic link below the folder of saved files is followed",
        path="orchestrator/formats/output/saved_files.py::_opened_below",
        old="_OPEN_FOLDER | os.O_NOFOLLOW",
        new="_OPEN_FOLDER",
        tests=(f"{FILES}::test_a_link_that_leads_out_of_the_folder_is_not_followed",),
    ),
    Fault(
        name="a link in an output reaches into our network",
        path="orchestrator/client/http/link_fetcher.py::fetched_link",
        old="if not may_be_fetched_from(str(address[0]), networks):",
        new="if False:",
        tests=("tests/client/http/test_link_fetcher.py::test_a_redirect_into_our_network_is_refused",),
    ),
    Fault(
        name="a result that counts no more makes a file",
        path="orchestrator/engine/collecting/webhook_inbox.py::WebhookInbox._is_to_be_validated",
        old="return is_legal(job.state, Event.COMPLETED) and self._validators.is_needed(job.run)",
        new="return self._validators.is_needed(job.run)",
        tests=(f"{SAVER}::test_a_result_that_comes_too_late_to_count_makes_no_file",),
    ),
    Fault(
        name="more is sent though the disk takes no files",
        path="orchestrator/engine/endpoint/run_stops.py::RunStops.observe_validation",
        old="if disk_fault is not None:",
        new="if False:",
        tests=(f"{SAVER}::test_a_disk_that_takes_no_files_stops_the_sending_and_outputs_are_kept_whole",),
    ),
    Fault(
        name="a full disk stops that member of a pool alone which has met it",
        path="orchestrator/engine/endpoint/endpoint.py::Endpoint.__post_init__",
        old="self.homes.output_faults",
        new="RunHomes().output_faults",
        tests=("tests/engine/pools/test_unwell.py::test_where_no_files_can_be_made_of_outputs_no_member_is_sent_more",),
        worlds=("saves", 43, 44),
    ),
    Fault(
        name="a page of HTML is taken for the file that a link should lead to",
        path="orchestrator/core/outputs/linked_pages.py::is_page",
        old='return begins.startswith(b"<") if is_said else',
        new="return False if is_said else",
        tests=(
            "tests/core/outputs/test_linked_pages.py::test_a_page_is_told_by_how_it_begins_and_by_what_its_server_says",
        ),
        worlds=("saves", 0, 12),
    ),
    Fault(
        name="the rows of a chunk fetch their links one after another",
        path="orchestrator/engine/collecting/chunk_results.py::ChunkResults._by_parts",
        old="all_of(works, most=ROWS_AT_ONCE)",
        new="all_of(works, most=1)",
        tests=(f"{SAVER}::test_links_of_one_execution_are_fetched_beside_one_another_but_not_all_at_once",),
    ),
    Fault(
        name="what the disk did not take stays in the ledger whole",
        path="orchestrator/engine/hosting/run_host.py::RunHost.send",
        old="await self.save_again(session)",
        new="pass",
        tests=(f"{SAVER}::test_the_next_process_saves_first_what_the_disk_did_not_take",),
    ),
    Fault(
        name="what a worker writes counts as a file that was saved",
        path="orchestrator/engine/collecting/output_saver.py::_Terms.is_ours",
        old="return self.ours is not None and saved_file(member) in self.ours",
        new="return self.is_again and saved_file(member) is not None",
        tests=(f"{SAVER}::test_what_a_worker_writes_is_no_file_that_was_saved_whatever_it_looks_like",),
    ),
    Fault(
        name="what a worker wrote is left among the files that were saved",
        path="orchestrator/engine/collecting/output_saver.py::OutputSaver._put",
        old="and earlier is None and saved_file(found) is None",
        new="and earlier is None",
        tests=(f"{SAVER}::test_what_a_worker_writes_is_no_file_that_was_saved_whatever_it_looks_like",),
    ),
    Fault(
        name="what was not fetched before a stop is fetched never",
        path="orchestrator/core/jobs/job.py::Unsaved.is_tried_again",
        old="return self is not Unsaved.MEMBER",
        new="return self is Unsaved.DISK",
        tests=(f"{SAVER}::test_a_stop_waits_for_no_slow_link_of_an_answer_and_it_is_fetched_at_the_next_start",),
    ),
    Fault(
        name="a file that is being written goes as one that a crash has left",
        path="orchestrator/formats/output/saved_files.py::NewFile._is_there",
        old="if _is_locked(descriptor) and self._is_called(name, descriptor):",
        new="if self._is_called(name, descriptor):",
        tests=(f"{FILES}::test_what_is_being_written_and_what_is_no_file_stay",),
    ),
    Fault(
        name="rules that are given later are for what comes alone",
        path="orchestrator/ledger/transactions/run_configuration.py::run_configure",
        old="if {*settings.saved_members} - {*stored.saved_members}:",
        new="if False:",
        tests=(
            "tests/conformance/test_kept_outputs.py::test_results_that_were_not_to_become_files_before_count_as_those_that_are_none_yet",
        ),
    ),
    Fault(
        name="settings that were read long before are put back over what others have changed since",
        path="orchestrator/ledger/transactions/run_configuration.py::run_configure",
        old="settings = settings.merged_into(stored, before=before)",
        new="",
        tests=("tests/conformance/test_runs.py::test_what_others_have_changed_since_settings_were_read_stays",),
    ),
    Fault(
        name="outputs are collected faster than they are saved",
        path="orchestrator/engine/collecting/output_saver.py::OutputSaver.room",
        old="while self._waiting_bytes > WAITING_BYTES_MAX:",
        new="while False:",
        tests=(f"{SAVER}::test_while_much_waits_to_be_saved_no_more_is_collected",),
    ),
    Fault(
        name="a file that a killed process has made is made once more",
        path="orchestrator/formats/output/saved_files.py::NewFile._placed",
        old="if self._is_taken(name):",
        new="if False:",
        tests=(f"{SAVER}::test_killed_between_the_file_and_its_step_it_is_found_again_and_nothing_points_at_nothing",),
        worlds=("saves", 1, 1),
    ),
    Fault(
        name="what a killed process was writing stays beside the files",
        path="orchestrator/formats/output/saved_files.py::NewFile._is_there",
        old="if _is_locked(descriptor) and self._is_called(name, descriptor):",
        new="if False:",
        tests=(f"{FILES}::test_what_a_crash_left_goes_with_the_next_file_of_that_name",),
        worlds=("saves", 31, 1),
    ),
)
