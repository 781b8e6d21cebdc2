"""The promises about a ledger on a server, which several processes share."""

from typing import Final

from tests.guarantees.promise import Promise

OF_SERVERS: Final = (
    Promise(
        number="G16",
        title="one process sends, and another takes its place",
        text=(
            "Of all that `serve` a ledger on a server, one works at each endpoint. Whoever is killed, stopped, or cut "
            "off from the ledger is followed within 10 seconds, whatever the clocks say; whoever is asked to stop, within two "
            "seconds of its last answers, once it has ended the pods of its runs and put back workers that it raised. Whoever reaches the ledger and gets no answer from the service for 30 seconds lets each "
            "other one try once. What one lacks a key, a variable or a file for is left to those that have it. After its successor's first request none of it leaves any more, also where it was "
            "stopped in the midst of one and goes on. What it had sent and got no answer to is uncertain, as after a crash; "
            "answers that it still reads are its successor's, and nothing else of it is written. An owner keeps "
            "the limits of its endpoint and counts what those before it have sent: where one follows another no request is "
            "refused. A webhook counts at whichever of them it comes to, and what people ask is done once, by whoever has the "
            "run: both within a second."
        ),
        assumptions=(
            "All of them connect with one role: a successor ends the connections of the one before.",
            "The system gives up what it cannot deliver for 30 seconds (`TCP_USER_TIMEOUT`, which macOS does not have).",
        ),
        breaks=(
            "A process that is stopped between the question whether it may still send and the sending, or while its socket takes no more: one request may leave late. Its job is uncertain, and its place in the limits is kept.",
        ),
        tests=(
            "tests/system/test_taking_over.py::test_one_takes_the_place_of_another_that_is_gone_and_each_webhook_counts_once",
            "tests/api/hosting/test_shared_ledger.py::test_each_has_a_part_and_sends_there_alone",
            "tests/api/hosting/test_shared_ledger.py::test_who_is_asked_to_stop_hands_over_and_nobody_waits",
            "tests/api/hosting/test_webhooks_elsewhere.py::test_one_that_comes_to_another_one_than_the_owner_counts_within_a_second_without_a_question",
            "tests/api/hosting/test_shared_ledger.py::test_what_people_ask_is_done_within_a_second_by_whoever_has_the_run",
            "tests/engine/commands/test_whose_command.py::test_a_command_is_carried_out_by_the_engine_of_its_run_and_one_of_no_run_by_the_keepers",
            "tests/api/hosting/test_shared_ledger.py::test_a_run_that_comes_to_have_an_endpoint_of_another_one_is_served_by_one_of_them",
            "tests/system/test_shared_ledger.py::test_runs_at_three_endpoints_give_the_same_files_as_in_a_file_while_one_of_three_is_stopped",
            "tests/core/ownership/test_shard_duties.py::test_what_another_one_asks_for_is_given_once_its_engine_has_ended",
            "tests/core/ownership/test_lease.py::test_whoever_takes_over_does_so_after_its_predecessor_has_ceased",
            "tests/api/hosting/test_shared_ledger.py::test_who_gets_no_answer_from_the_service_hands_over_and_stands_back",
            "tests/api/hosting/test_shard_ability.py::test_what_needs_a_variable_is_served_where_that_is_set_and_the_rest_is_shared_as_ever",
            "tests/api/hosting/test_shard_ability.py::test_where_nobody_has_all_for_it_that_is_shown_and_one_of_them_has_it_all_the_same",
            "tests/core/ownership/test_shard_bids.py::test_who_serves_a_shard_best_comes_to_have_it_and_it_rests_there",
            "tests/core/ownership/test_shard_bids.py::test_one_that_comes_and_dies_again_and_again_takes_nothing_down",
            "tests/api/hosting/test_pipeline_folders.py::test_flows_wait_with_all_their_rows_for_the_machine_that_has_their_folder",
            "tests/api/hosting/test_pipeline_folders.py::test_a_pipeline_whose_folder_is_nowhere_takes_the_flows_of_others_from_nobody",
            "tests/core/ownership/test_service_reach.py::test_where_nobody_gets_an_answer_a_shard_comes_to_each_once_and_stays_with_the_last",
            "tests/ledger/processes/test_shard_owner.py::test_whoever_beats_keeps_what_it_has_however_long_another_one_looks",
            "tests/ledger/processes/test_shard_owner.py::test_what_one_has_that_beats_no_more_is_free_for_another_one_though_it_is_connected",
            "tests/ledger/processes/test_tenure.py::test_one_that_reaches_nobody_trusts_itself_for_some_seconds_and_again_once_it_does",
            "tests/ledger/processes/test_tenure.py::test_one_that_was_deposed_learns_it_and_nothing_leaves_it_any_more",
            "tests/ledger/processes/test_processes.py::test_a_transaction_that_stands_still_is_ended_by_who_declares_its_process_dead_and_leaves_nothing",
            "tests/ledger/processes/test_processes.py::test_of_two_who_declare_the_same_one_dead_one_does",
            "tests/ledger/processes/test_processes.py::test_who_was_declared_dead_can_prove_nothing_beat_no_more_and_take_nothing",
            "tests/ledger/processes/test_leases.py::test_of_many_who_take_at_once_one_gets_all_of_it",
            "tests/ledger/processes/test_server_site.py::test_who_lost_it_writes_nothing_more_and_knows_why",
            "tests/client/http/test_leave_to_send.py::test_what_may_leave_leaves_and_what_may_not_does_not_on_a_new_connection_and_on_a_used_one",
            "tests/engine/hosting/test_owned.py::test_nothing_leaves_a_process_that_may_have_lost_its_place",
            "tests/engine/hosting/test_owned.py::test_at_a_take_over_what_may_still_arrive_keeps_its_part_of_the_limits",
            "tests/engine/hosting/test_owned.py::test_what_may_still_arrive_is_not_sent_again_before_it_cannot_any_more",
            "tests/engine/hosting/test_owned.py::test_where_the_one_before_let_go_its_successor_goes_on_as_it_stood",
            "tests/core/limits/test_left_to_successor.py::test_it_sends_when_the_other_one_would_have",
            "tests/limits/test_take_overs.py::test_at_take_overs_no_request_is_refused_whatever_the_way_of_counting",
            "tests/limits/test_take_overs.py::test_one_that_goes_on_exactly_is_refused_nothing_either",
            "tests/ledger/postgres/test_every_order.py::test_two_verbs_that_meet_lose_nothing_in_any_order_of_their_statements",
            "tests/ledger/postgres/test_every_order.py::test_nothing_is_written_by_an_owner_that_has_lost_its_place_and_all_by_one_that_keeps_it",
            "tests/simulation/engines/test_engines.py::test_no_world_with_several_engines_violates_a_promise",
            "tests/engine/hosting/test_deposed.py::test_of_a_deposed_one_nothing_is_written_but_what_it_heard",
            "tests/engine/hosting/test_deposed.py::test_a_successor_takes_what_its_predecessor_hears_and_pays_nothing_twice",
        ),
        figures={"failover": ("",), "limits.take_overs": ("",), "postgres.every_order": ("",)},
    ),
    Promise(
        number="G17",
        title="a ledger that goes elsewhere goes whole, and counts in one place",
        text=(
            "`ledger copy` brings all rows of a ledger to a server, or back into a file, and compares them. Its runs go on "
            "there, and nothing is sent twice. Whatever ends it, at whichever moment, one of the two ledgers counts and the "
            "other one is refused, with where it went; the same command given again finds out which, or goes on."
        ),
        assumptions=("What lies beside a ledger on one machine goes along on that machine alone.",),
        breaks=(
            "An older copy of the file, or a backup, that somebody works on as well: nobody can know of it.",
            "What was being sent when a process was killed just before: of those jobs it is not known there whether their requests left, so they are uncertain.",
        ),
        tests=(
            "tests/ledger/copying/test_ledger_copy.py::test_all_that_it_holds_is_there_afterwards_and_it_says_where",
            "tests/ledger/copying/test_ledger_copy.py::test_it_goes_on_where_it_is_and_no_number_comes_again",
            "tests/ledger/copying/test_ledger_copy.py::test_what_is_ended_in_the_midst_has_not_happened",
            "tests/ledger/copying/test_ledger_copy.py::test_the_source_counts_again_where_the_last_word_of_the_target_fails",
            "tests/ledger/copying/test_ledger_copy.py::test_who_was_killed_before_the_last_word_gives_the_same_command_again",
            "tests/ledger/copying/test_ledger_copy.py::test_what_went_there_without_a_run_counts_there_alone_though_the_command_is_given_again",
            "tests/ledger/copying/test_ledger_copy.py::test_who_waits_for_its_turn_to_write_has_come_too_late",
            "tests/ledger/copying/test_ledger_copy.py::test_rows_that_came_otherwise_are_noticed",
            "tests/ledger/copying/test_ledger_copy.py::test_what_lies_beside_may_take_its_time_while_nobody_works_on_either",
            "tests/api/admin/test_companion_copies.py::test_what_was_cut_off_half_way_is_whole_once_the_command_is_given_again",
            "tests/system/test_copied_ledgers.py::test_a_run_goes_on_wherever_its_ledger_went",
            "tests/system/test_copied_ledgers.py::test_ctrl_c_in_the_midst_of_copying_leaves_all_as_it_was",
        ),
    ),
    Promise(
        number="G18",
        title="a ledger on a server survives its network, and its server's end",
        text=(
            "Connections to the server may be cut, reset or dead at any moment, also at a COMMIT, and the server may be killed "
            "and begun anew: what was confirmed is there, once. Until it can be reached again nothing is sent that was not "
            "written down before, people are told since when, and then the work goes on: of `serve` whenever that is, of "
            "`run`, `tick` and programs within ten minutes. Where the server has lost what it had confirmed, whoever finds that "
            "stops all of them, on every machine, until somebody accepts it."
        ),
        assumptions=(
            "The server keeps what it confirms (`fsync`; where a standby may be promoted, `synchronous_standby_names`).",
            "Nobody changes the tables of the ledger but this program.",
        ),
        breaks=(
            "A standby that is promoted without the last transactions, or a backup that is put in the server's place: it is noticed at the next transaction of a process that was at work, or where another one's beat goes back. What neither shows, as of a process that died with the server, nobody notices.",
            "Results that the service forgets while the database is away for longer than their retention.",
        ),
        tests=(
            "tests/ledger/postgres/test_lost_lines.py::test_of_interrupted_commits_none_is_taken_for_what_it_is_not",
            "tests/ledger/postgres/test_lost_lines.py::test_while_the_database_is_away_all_wait_are_told_once_and_go_on_when_it_is_back",
            "tests/ledger/postgres/test_lost_lines.py::test_on_a_line_that_is_dead_everything_ends_also_the_closing",
            "tests/ledger/postgres/test_lost_lines.py::test_what_a_dead_line_has_left_at_the_server_holds_nobody_up",
            "tests/ledger/postgres/test_lost_lines.py::test_a_view_that_was_cut_is_taken_anew",
            "tests/ledger/postgres/test_lost_lines.py::test_a_server_that_lacks_what_it_had_confirmed_ends_the_work",
            "tests/ledger/processes/test_lost_commits.py::test_once_it_is_noted_all_are_dead_and_nobody_joins_before_it_is_accepted",
            "tests/ledger/processes/test_lost_commits.py::test_whose_beats_were_forgotten_is_dead_for_good",
            "tests/ledger/processes/test_lost_commits.py::test_who_joined_in_what_was_lost_finds_it_of_one_that_beats_no_more",
            "tests/system/test_lost_commits.py::test_nothing_is_sent_again_until_somebody_accepts_that",
            "tests/ledger/postgres/test_restarts.py::test_what_was_confirmed_is_there_once_however_often_the_server_is_killed",
            "tests/engine/hosting/test_database_away.py::test_a_run_whose_database_is_away_goes_on_afterwards_and_sends_nothing_meanwhile",
            "tests/engine/hosting/test_database_away.py::test_who_is_asked_to_stop_meanwhile_stops_soon_and_says_why",
            "tests/system/test_server_away.py::test_a_run_goes_on_once_it_is_back_and_nothing_is_paid_twice",
        ),
        figures={"postgres.interrupted_commits": ("",)},
    ),
)
