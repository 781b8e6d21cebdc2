"""The promises about rows that travel together, files that are made of outputs, and batches that programs post."""

from typing import Final

from tests.guarantees.promise import Promise

OF_OUTPUTS: Final = (
    Promise(
        number="G13",
        title="a row that travels with others has an end of its own",
        text=(
            "With `--chunk` several rows are one job of the service, and each keeps its id, its attempts and its error. A chunk "
            "that fails, or whose output is not one part for each row, goes again in halves, which costs none of its rows an "
            "attempt, until the bad row stands alone. An execution of a chunk counts as possibly paid for each of its rows. What "
            "a webhook brings of a chunk is believed, also once the chunk was given up, for those rows that have not left again."
        ),
        assumptions=(
            "The handler gives as many parts as there are rows, in their order, or names each row by its id.",
            "A handler that says of one row that it is bad (`error` in its part) has done the others.",
        ),
        breaks=(
            "A handler that gives parts in another order, and names none: nothing shows that.",
            "A service that answers `/run` with the id of an earlier job, where parts go by place.",
            "Rows that fail only in company: each halving executes the others once more, which is counted.",
        ),
        tests=(
            "tests/simulation/test_chunks.py::test_each_row_has_its_own_end_whatever_becomes_of_its_chunk",
            "tests/simulation/test_chunks.py::test_a_ledger_in_which_a_row_bears_what_is_anothers_is_found_out",
            "tests/simulation/test_chunks.py::test_no_world_with_chunks_violates_a_promise",
            "tests/engine/chunks/test_kills.py::test_killed_before_or_after_every_commit_each_row_has_its_own_end",
            "tests/engine/chunks/test_chunks.py::test_a_poisonous_row_is_one_failed_row",
            "tests/engine/chunks/test_chunks.py::test_an_output_that_is_not_of_these_rows_is_halved_until_it_is",
            "tests/core/chunks/test_chunk_steps.py::test_a_chunk_that_failed_goes_again_in_halves_and_costs_no_attempt",
            "tests/engine/chunks/test_troubles.py::test_a_webhook_brings_what_is_in_a_chunk_and_nobody_else_is_asked",
            "tests/engine/chunks/test_troubles.py::test_what_was_given_up_and_ends_all_the_same_is_not_executed_again",
        ),
        figures={"benchmarks": ("chunks: ",)},
    ),
    Promise(
        number="G14",
        title="a result that tells of a file has it, whole",
        text=(
            "With `--save` a file is in its place, durably, before its row says so, with its size and SHA-256; it takes no "
            "other file's place, and nothing is written outside of its folder. What cannot be a file stays in its row, and "
            "says why. What a full disk did not take is saved as the run is gone on with. A link of an output is fetched "
            "without our key, and never from a private address that nobody has allowed."
        ),
        assumptions=(
            "The file system keeps what was synced (fsync), and no second file under one name.",
            "Whoever answers at a link gives the file: what comes with a 200, and is no page of HTML, is what the file then holds.",
        ),
        breaks=(
            "People who move, change or delete files: `verify` tells which.",
            "A process that is killed while it writes leaves a file that begins with a dot and ends with `.tmp`; who saves that row next removes it.",
            "A process that is killed while it fetches a slow link, and nobody who comes back before the service has forgotten the result.",
        ),
        tests=(
            "tests/simulation/test_saves.py::test_what_can_be_a_file_is_one_and_the_rest_says_why",
            "tests/simulation/test_saves.py::test_a_file_that_is_not_what_its_row_says_is_found_out",
            "tests/simulation/test_saves.py::test_no_world_with_saved_files_violates_a_promise",
            "tests/engine/collecting/test_output_saver.py::test_killed_between_the_file_and_its_step_it_is_found_again_and_nothing_points_at_nothing",
            "tests/engine/collecting/test_output_saver.py::test_what_a_worker_writes_is_no_file_that_was_saved_whatever_it_looks_like",
            "tests/engine/collecting/test_output_saver.py::test_a_stop_waits_for_no_slow_link_of_an_answer_and_it_is_fetched_at_the_next_start",
            "tests/engine/collecting/test_output_saver.py::test_a_disk_that_takes_no_files_stops_the_sending_and_outputs_are_kept_whole",
            "tests/formats/output/test_saved_files.py::test_a_link_that_leads_out_of_the_folder_is_not_followed",
            "tests/core/outputs/test_save_rules.py::test_an_id_leads_nowhere",
            "tests/engine/pools/test_unwell.py::test_where_no_files_can_be_made_of_outputs_no_member_is_sent_more",
            "tests/client/http/test_link_fetcher.py::test_a_redirect_into_our_network_is_refused",
            "tests/client/http/test_link_fetcher.py::test_a_page_in_the_place_of_a_file_is_refused_and_fetched_where_it_is_wanted",
        ),
        figures={"benchmarks": ("saves: ",)},
    ),
    Promise(
        number="G15",
        title="a batch that was posted ends once, and each of its requests has one line",
        text=(
            "A batch of the Batch API that was answered is in the ledger. It ends in one state, whoever was killed: each of its "
            "requests has one line then, in the file of results or in that of errors, and the batch counts as many. What is "
            "late, or cancelled, ends with what it has. A file is there whole or not at all, and each key sees its own files "
            "and batches only."
        ),
        assumptions=(
            "Somebody serves the ledger (`orchestrator serve --batch-api`).",
            "A program that was not answered asks again: what it had posted may be there already, a second time.",
        ),
        breaks=(
            "A batch whose file is deleted before it was read, or whose run is deleted, has failed, and says so; it has no files.",
            "Files that have expired are gone, those of results as well: `keep-files`, and `expires_after` of the program.",
        ),
        tests=(
            "tests/simulation/test_posted.py::test_each_batch_ends_once_and_each_request_has_one_line_whoever_is_killed",
            "tests/simulation/test_posted.py::test_a_ledger_that_was_tampered_with_is_found_out",
            "tests/simulation/test_posted.py::test_no_world_with_posted_batches_violates_a_promise",
            "tests/batch_api/test_kills.py::test_killed_at_each_commit_a_batch_ends_with_each_row_once",
            "tests/batch_api/test_files.py::test_each_key_has_its_own_files_and_a_wrong_one_none",
            "tests/batch_api/test_batches.py::test_a_batch_is_a_run_whose_files_have_each_request_once",
            "tests/conformance/test_posted_batches.py::test_a_batch_goes_from_state_to_state_and_its_end_comes_with_its_files",
        ),
    ),
)
