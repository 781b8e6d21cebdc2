"""The promises: in words, what each rests on, what breaks it, and the tests that show it.

A test is named as pytest names it, `path::function`. `figures` chooses, from the modules whose commands record figures
(`tests.limits` is "limits"), those whose name begins with one of the texts; "" takes all.
"""

from typing import Final

from tests.guarantees.promise import Promise
from tests.guarantees.promises_of_outputs import OF_OUTPUTS
from tests.guarantees.promises_of_servers import OF_SERVERS

PROMISES: Final = (
    Promise(
        number="G1",
        title="no result is lost to the service's retention",
        text=(
            "While it runs, every result is asked for before the service forgets it: 30 minutes after completion, or at "
            "the job's TTL if that comes first. At any time it can say how long it may safely be away."
        ),
        assumptions=(
            "The service keeps a result for the retention that was set (`--result-retention`), and deletes no job before its TTL.",
            "`/status` answers at its limit, or at least often enough for what is outstanding: no more is sent than 80 % of that limit could collect.",
            "The line brings the outputs in time. Where it is full, no more jobs are sent than it has brought back of late; those sent before that was known may be too many.",
            "This machine's clock does not run slow by minutes. Jumps are harmless: a clock that is set back is not followed, and what a process with a clock that was ahead has left in the ledger is brought back.",
        ),
        breaks=(
            "Being away, or without network, for longer than it said was safe. Such jobs are counted as expired, and paid again at most once each (`--on-expired`).",
            "By `/runsync` (`--via sync`, `--via both`) the service keeps a result for one minute only: what finishes more than a minute before somebody is back has expired. This is said before the lane is used, and by `plan`.",
            "A TTL too short for queue and execution together: the result dies with the TTL.",
            "A service that keeps results for less than was agreed. Those that are gone before that is noticed (three, and what has been left there too long by then) are counted as lost, and paid again. From then on results are asked for sooner, by what was seen of the service, and it says so.",
        ),
        tests=(
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
            "tests/engine/hosting/test_runs.py::test_whatever_happens_to_the_webhooks_all_results_arrive_before_their_retention",
            "tests/simulation/test_swarm.py::test_each_quick_scenario_keeps_the_promises",
            "tests/simulation/test_many.py::test_as_many_as_may_be_outstanding_are_all_collected_in_time_by_polling_alone",
            "tests/engine/collecting/test_collector.py::test_no_job_is_asked_for_later_than_its_hard_deadline_even_where_nobody_answers",
            "tests/engine/collecting/test_collector.py::test_scarce_questions_go_to_the_earliest_deadline_first",
            "tests/engine/collecting/test_collector.py::test_jobs_of_an_earlier_process_are_asked_for_at_once_in_the_order_of_their_deadlines",
            "tests/engine/collecting/test_collector.py::test_the_time_that_it_is_safe_to_stay_away_ends_with_the_ttl",
            "tests/engine/maintenance/test_clocks.py::test_when_a_job_was_last_unfinished_in_the_future_is_unknown_and_it_is_asked_for_at_once",
            "tests/engine/collecting/test_impossible_times.py::test_an_impossible_time_spoils_no_result_and_changes_nothing",
            "tests/engine/endpoint/test_probe.py::test_a_refusal_that_does_not_last_a_minute_ends_nothing",
            "tests/engine/sending/test_dispatcher.py::test_few_outstanding_jobs_are_sent_where_they_could_not_be_collected_in_time",
            "tests/core/jobs/test_deadlines.py::test_the_hard_deadline_lies_before_retention_and_ttl_have_run_out",
            "tests/engine/lanes/test_sync_lane.py::test_a_job_that_outlives_the_wait_is_asked_for_within_the_minute_that_it_is_kept",
            "tests/engine/lanes/test_sync_lane.py::test_what_finished_more_than_a_minute_before_the_return_has_expired",
            "tests/engine/endpoint/test_estimates.py::test_after_a_few_results_that_were_gone_too_early_no_other_is_left_there_for_so_long",
            "tests/engine/endpoint/test_estimates.py::test_a_process_that_finds_results_gone_after_a_pause_calls_less_time_safe_and_sends_less_ahead",
            "tests/engine/endpoint/test_estimates.py::test_jobs_that_are_lost_by_chance_change_nothing",
            "tests/system/test_webhooks.py::test_with_the_listener_down_for_the_whole_run_everything_is_collected_by_asking",
            "tests/client/http/test_large_bodies.py::test_large_answers_over_a_narrow_line_are_all_read_and_each_once",
            "tests/engine/sending/test_claimed_jobs.py::test_no_more_jobs_are_at_the_service_than_the_line_brings_back_in_time",
        ),
        figures={"simulation.many": ("",), "simulation.questions": ("",), "narrow": ("down", "webhook")},
    ),
    Promise(
        number="G2",
        title="no job is paid for twice, but for what is counted",
        text=(
            "A job is sent again only after an execution that failed, or where its submission is uncertain, lost or expired. "
            "Each of these is counted and shown, and a resume that will pay for jobs again says so before it sends."
        ),
        assumptions=(
            "The service runs a job once for each `/run` that it accepts, and again only for a `/retry`. What it repeats of its own accord is its own doing.",
            "A refusal (4xx, 429, 503) means that no job was made.",
            "An id that the service gives, and has given no other job of late, is that of the job that was sent.",
            "Nobody acts on a request whose body is shorter than its `Content-Length` says.",
            "The file beside the ledger that tells what may have left is as the process left it. Where it is missing, torn or of another boot of the machine, everything that a crash caught is uncertain.",
        ),
        breaks=(
            "An answer to `/run` that never came, for a job that was made all the same, where no webhook tells of it before the grace is over: counted as uncertain. `--on-uncertain fail` pays nothing twice, and gives up instead; `hold` waits until the TTL is over, and then pays again for what ran without anybody hearing of it.",
            "Answers that are held as a process ends, by `/runsync`: so many jobs are uncertain, 400 at the contract's limits. With webhooks each is adopted once its webhook arrives.",
            "A batch of the service's own (`--via batch`) that the service forgets, or gives up, while it executes it: its rows are lost, counted, and sent again.",
            "A member of a pool that answers nothing for a minute, while another one does: what is there is uncertain, as above. What only waits there is sent anew once its cancelling is confirmed.",
            "The ledger restored from an older copy: what was sent since is not known to it.",
            "The same input run with a second ledger.",
        ),
        tests=(
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
            "tests/engine/sending/test_dispatcher.py::test_the_intent_to_send_is_durable_before_the_request_leaves",
            "tests/engine/sending/test_dispatcher.py::test_a_request_that_may_have_had_an_effect_makes_the_job_uncertain",
            "tests/engine/maintenance/test_sent_or_not.py::test_what_was_claimed_and_never_left_is_queued_again_at_no_cost",
            "tests/engine/maintenance/test_sent_or_not.py::test_where_the_marks_cannot_be_believed_everything_claimed_is_uncertain",
            "tests/engine/maintenance/test_sent_or_not.py::test_being_caught_by_our_own_crashes_costs_none_of_the_tries",
            "tests/engine/hosting/test_runs.py::test_lost_answers_are_paid_again_only_where_nobody_told_of_them",
            "tests/engine/maintenance/test_canceller.py::test_a_result_of_a_submission_that_was_given_up_wins_and_the_other_one_is_cancelled",
            "tests/engine/lanes/test_cut_off.py::test_what_is_cut_off_as_we_end_is_uncertain_and_goes_on",
            "tests/engine/lanes/test_sync_lane.py::test_an_answer_that_was_cut_is_adopted_by_its_webhook",
            "tests/engine/batches/test_lost_answers.py::test_an_append_that_is_not_answered_puts_no_row_in_twice",
            "tests/engine/batches/test_lost_answers.py::test_requests_that_are_taken_twice_are_never_finalized",
            "tests/engine/batches/test_ends.py::test_what_would_be_late_leaves_by_run_once_its_batch_is_seen_to_be_cancelled",
            "tests/engine/batches/test_hidden_endpoint.py::test_while_an_endpoint_is_unknown_none_of_its_batches_is_taken_for_gone",
            "tests/crashes/test_commits.py::test_batches_killed_at_any_of_their_commits_lose_no_row_and_execute_none_twice",
            "tests/engine/pools/test_unwell.py::test_what_begins_before_its_cancelling_is_confirmed_stays",
            "tests/engine/pools/test_unwell.py::test_what_is_at_a_member_that_died_is_uncertain_there_after_a_while",
            "tests/engine/pools/test_goals.py::test_who_is_well_loses_no_time_by_one_that_dies_and_one_without_machines",
            "tests/api/outcomes/test_late_results.py::test_a_result_counts_however_its_job_was_given_up_before",
            "tests/api/outcomes/test_late_results.py::test_what_was_noted_as_a_run_ended_is_taken_up_by_the_next_process_before_it_sends_anything",
            "tests/engine/maintenance/test_crashes.py::test_a_killed_program_loses_nothing_and_pays_again_only_for_what_is_uncertain",
            "tests/engine/collecting/test_output_saver.py::test_killed_between_the_file_and_its_step_it_is_found_again_and_nothing_points_at_nothing",
            "tests/system/test_saved_files.py::test_killed_again_and_again_each_result_has_its_one_file",
            "tests/engine/collecting/test_output_saver.py::test_the_next_process_saves_first_what_the_disk_did_not_take",
            "tests/engine/collecting/test_collector.py::test_an_endpoint_that_vanishes_for_two_minutes_loses_nothing_and_nothing_is_paid_twice",
            "tests/engine/collecting/test_no_news.py::test_a_maintenance_that_answers_with_pages_costs_no_job_anything",
            "tests/engine/collecting/test_other_records.py::test_the_record_of_another_job_is_never_taken_for_the_one_that_was_asked_for",
            "tests/engine/collecting/test_other_records.py::test_an_id_that_another_job_has_is_no_usable_id",
            "tests/engine/collecting/test_missing_job_check.py::test_an_endpoint_that_forgets_everything_is_suspect_at_once_though_it_takes_new_jobs",
            "tests/engine/maintenance/test_janitor.py::test_what_going_on_will_cost_is_known_before_anything_is_sent",
            "tests/engine/maintenance/test_janitor.py::test_an_absence_longer_than_the_ttl_is_said_to_cost_what_it_costs",
            "tests/core/service/test_outcomes.py::test_nothing_outside_2xx_and_4xx_but_503_says_that_a_submission_had_no_effect",
            "tests/conformance/test_steps.py::test_a_step_is_taken_once_and_only_from_what_it_was_made_for",
            "tests/client/http/test_large_bodies.py::test_a_request_cut_before_all_of_it_had_left_counts_as_not_sent",
            "tests/client/http/test_large_bodies.py::test_a_request_that_stands_still_counts_as_not_sent_and_the_rest_of_it_never_arrives",
            "tests/client/http/test_idle_timeout.py::test_answers_that_came_while_the_process_was_stopped_are_read",
        ),
        figures={
            "crashes": ("jobs paid twice", "uncertain", "resubmi"),
            "simulation": ("paid",),
            "narrow": ("up", "asleep"),
        },
    ),
    Promise(
        number="G3",
        title="the service's limits are kept, and used",
        text=(
            "The traffic of one ledger draws no 429, whichever way the service counts: in any window that slides, in fixed "
            "windows, by a weighted counter, or by token buckets of the whole limit or a tenth of it. With a window of W "
            "seconds it uses about min(0.995, W / (W + mean round trip + 10 ms)) of the allowance; of limits below a few hundred "
            "requests a window less: 95 % of a hundred, 77 % of ten, a little under half of two or one."
        ),
        assumptions=(
            "The limits that were set are those of the service, and nothing else uses the same endpoint with the same key (else: `--limit`).",
            "The service counts a request between its sending and its answer.",
            "For limits below a few hundred requests a window: round trips of 300 ms at most.",
            "Clocks run at the same speed on both sides; they need not agree.",
            "For the share that is used: the process gets the processor within 15 ms of when it needs it. What is delayed by more stays unused. The figures of `tests.limits` were taken with `chrt -f 5` on a machine that others kept busy; at `nice -n -15` there they were 95.8 to 99.4 %, with as few 429s: none.",
        ),
        breaks=(
            "Other programs on the same key and endpoint. A 429 then costs no attempt: `Retry-After` is obeyed, and the rate is cut where that helps.",
            "A limit that the service lowers while we run, until the first 429 tells of it.",
        ),
        tests=(
            "tests/engine/pools/test_fast.py::test_each_member_has_limits_of_its_own",
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
            "tests/core/limits/test_rate_pacer.py::test_no_request_is_refused_by_any_way_of_counting_and_the_allowance_is_used",
            "tests/core/limits/test_rate_pacer.py::test_in_virtual_hours_small_limits_draw_no_429_by_any_way_of_counting",
            "tests/core/limits/test_rate_pacer.py::test_no_window_of_the_server_ever_holds_more_than_the_limit",
            "tests/core/limits/test_rate_pacer.py::test_a_limiter_without_the_guard_and_the_pacing_would_be_caught_by_these_servers",
            "tests/core/limits/test_rate_pacer.py::test_the_requests_of_an_earlier_process_hold_slots",
            "tests/core/limits/test_rate_pacer.py::test_a_process_that_follows_a_killed_one_at_once_draws_no_429",
            "tests/core/limits/test_rate_pacer.py::test_the_batch_and_the_people_beside_it_draw_no_429_together",
            "tests/limits/test_limits.py::test_no_request_of_real_processes_is_refused",
            "tests/core/limits/test_rate_controller.py::test_in_worlds_that_refuse_the_limits_are_used_and_little_is_refused",
            "tests/client/jobs/test_rate_limiter.py::test_the_allowance_is_used_although_timers_are_rounded_up",
            "tests/benchmarks/test_short.py::test_a_run_within_the_contract_s_limits_draws_no_429",
        ),
        figures={"limits": ("",), "benchmarks": ("allowance",)},
    ),
    Promise(
        number="G4",
        title="kill -9 at any moment loses nothing",
        text=(
            "Whenever it is stopped, and however, running the same command again continues. A file that is made of an "
            "output is in its place before its row tells of it."
        ),
        assumptions=(
            "The ledger is on a local disk that honours `fsync`; network file systems are refused.",
            "Nobody changes the ledger's files but this program. (That they are deleted or moved while it works is noticed, and what is still open is saved.)",
        ),
        breaks=(
            "A disk that loses what it said was written, or the loss of the disk: keep the ledger where your results are safe.",
            "Deleting `-wal` beside a ledger that was not closed.",
        ),
        tests=(
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
            "tests/system/test_kills.py::test_a_killed_run_loses_nothing_and_repeats_only_what_was_uncertain",
            "tests/engine/maintenance/test_crashes.py::test_a_killed_program_loses_nothing_and_pays_again_only_for_what_is_uncertain",
            "tests/engine/collecting/test_output_saver.py::test_killed_between_the_file_and_its_step_it_is_found_again_and_nothing_points_at_nothing",
            "tests/system/test_saved_files.py::test_killed_again_and_again_each_result_has_its_one_file",
            "tests/engine/collecting/test_output_saver.py::test_the_next_process_saves_first_what_the_disk_did_not_take",
            "tests/crashes/test_commits.py::test_a_run_killed_at_any_of_its_commits_is_ended_by_the_next_process",
            "tests/system/test_damage.py::test_files_copied_at_any_moment_and_cut_off_anywhere_hold_a_prefix_of_the_commits",
            "tests/system/test_damage.py::test_a_damaged_page_is_recognised_where_it_is_met_and_found_by_verify",
            "tests/system/test_damage.py::test_a_ledger_that_cannot_be_written_is_told_and_nothing_is_sent",
            "tests/system/test_damage.py::test_another_program_that_takes_the_lock_again_and_again_is_waited_for",
            "tests/system/test_resume.py::test_resume_goes_on_without_the_input_and_collects_what_a_dead_process_sent",
            "tests/system/test_full_disk_seen.py::test_who_serves_waits_until_there_is_space_again_and_nothing_is_lost_or_sent_twice",
            "tests/system/test_full_disk.py::test_a_disk_that_fills_up_stops_the_run_and_after_space_is_freed_nothing_is_lost",
            "tests/system/test_interruption.py::test_a_second_signal_leaves_at_once_and_loses_nothing",
            "tests/system/test_interruption.py::test_a_lost_terminal_stops_in_order_although_nothing_can_be_said_any_more",
            "tests/system/test_misplaced.py::test_a_ledger_that_is_lost_under_a_run_is_noticed_and_saved",
            "tests/system/test_two_processes.py::test_a_ledger_under_a_second_name_is_refused_by_whoever_comes_second",
            "tests/ledger/sqlite/test_cancellation.py::test_callers_cancelled_at_random_points_are_told_exactly_what_is_in_the_file",
            "tests/ledger/schema/test_storage_errors.py::test_the_ledger_is_as_durable_as_it_says",
            "tests/crashes/test_commits.py::test_a_pool_killed_at_any_of_its_commits_moves_what_waits_once_and_executes_nothing_twice",
            "tests/system/test_pools.py::test_a_move_that_is_killed_again_and_again_is_ended_by_the_next_process",
        ),
        figures={"crashes": ("processes", "damaged", "runs")},
    ),
    Promise(
        number="G5",
        title="every input ends in exactly one row",
        text="Each input is one row of the results file or one row of the errors file, never both and never neither.",
        assumptions=("The run is let finish: until then a job that has not ended is in neither file.",),
        breaks=(
            "Editing the files, or writing two runs into one file.",
            "A service that gives ids twice, and no webhooks: it warns, and a row may hold the output of another job.",
            "A service that gives ids twice, and a kill or a hand-over: which are in doubt is known to one process only.",
            "A service that gives an id twice, and whose webhook for the job brings the record of yet another one.",
        ),
        tests=(
            "tests/system/test_run.py::test_a_file_of_inputs_becomes_a_file_of_results_in_the_same_order",
            "tests/system/test_run.py::test_failed_jobs_are_retried_and_the_hopeless_end_in_the_errors_file_with_exit_code_1",
            "tests/api/runs/test_program.py::test_a_run_with_lost_answers_gives_every_row_one_result",
            "tests/engine/collecting/test_other_records.py::test_the_id_of_a_job_that_is_done_is_no_other_ones_in_the_next_process_either",
            "tests/ledger/transitions/test_apply_transitions.py::test_the_first_result_wins_whichever_submission_it_is_of",
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
            "tests/api/outcomes/test_audit.py::test_what_others_do_to_the_tables_is_found",
            "tests/api/outcomes/test_compare.py::test_an_output_that_is_damaged_in_the_ledger_stands_among_the_errors_and_stops_no_other",
            "tests/api/outcomes/test_nesting.py::test_an_output_that_could_be_collected_can_be_written_and_others_keep_nothing_up",
            "tests/api/outcomes/test_compare.py::test_a_line_that_stands_twice_or_in_the_other_file_is_one_too_many",
            "tests/simulation/test_repeated_ids.py::test_with_its_own_webhook_each_row_has_its_own_output_though_ids_are_given_twice",
            "tests/ledger/transitions/test_apply_transitions.py::test_events_replayed_through_the_table_give_the_states_and_the_counts",
            "tests/system/test_full_disk.py::test_no_space_for_the_results_leaves_no_half_of_them",
        ),
        figures={"crashes": ("jobs without",), "simulation": ("",)},
    ),
    Promise(
        number="G6",
        title="nobody without a token changes a job through the listener",
        text=(
            "Nothing that anyone sends to the listener can change a job, unless it holds the token of that job's submission. "
            "Whatever strangers send, legitimate webhooks are still answered."
        ),
        assumptions=(
            "The webhook URLs, which carry the tokens, are known to the service alone; use `https` in front of the listener where others could read along.",
            "The key of the tokens (`LEDGER.key`) is readable by its owner alone.",
        ),
        breaks=(
            "A token that leaks: its holder can bring a result for that one submission, and no other.",
            "More traffic than the line or the machine can take. Webhooks are then lost, and the results are asked for instead.",
        ),
        tests=(
            "tests/web/test_webhook_routes.py::test_every_other_path_gets_the_same_empty_404_and_its_body_is_not_read",
            "tests/web/test_webhook_routes.py::test_no_text_passes_for_a_token",
            "tests/web/test_webhook_routes.py::test_no_answer_is_given_before_the_notice_is_durable",
            "tests/web/test_server.py::test_everything_else_gets_one_and_the_same_404_and_the_connection_ends",
            "tests/web/test_server.py::test_a_chunked_body_that_grows_too_large_is_answered_there",
            "tests/web/test_listener_connection.py::test_a_head_that_trickles_in_is_cut_at_its_time_however_often_it_moves",
            "tests/web/test_listener_connection.py::test_of_too_many_connections_those_that_have_said_nothing_for_longest_are_closed",
            "tests/hostile/test_short.py::test_strangers_change_nothing_and_every_webhook_is_answered",
            "tests/engine/collecting/test_webhook_inbox.py::test_a_webhook_that_comes_twice_and_once_more_late_changes_nothing",
        ),
        figures={"hostile": ("",)},
    ),
    Promise(
        number="G7",
        title="keys and secrets are kept nowhere",
        text=(
            "The API key and what `env:` references stand for never reach the ledger, a log, a metric, a page or an export. Nor "
            "does the webhook key of a ledger on a server, or that server's password; none of these is in a dump of it, in the "
            "server's log, or in what the server shows of those at work."
        ),
        assumptions=(
            "Secrets are given by reference (`env:NAME`); what stands literally in an input is not known as one.",
        ),
        breaks=("A handler that returns a secret in hexadecimal, cut in pieces, or encoded as nobody else does.",),
        tests=(
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
            "tests/system/test_secrets.py::test_neither_the_secret_nor_the_key_is_kept_or_said_anywhere",
            "tests/system/test_secrets_sweep.py::test_no_secret_of_any_kind_is_where_it_must_not_be",
            "tests/system/test_secrets_on_server.py::test_no_secret_is_in_a_dump_of_the_ledger_in_the_servers_log_or_in_what_it_is_seen_at",
            "tests/system/test_on_server.py::test_a_webhook_key_of_another_machine_is_refused_and_one_that_is_given_is_kept_out_of_the_ledger",
            "tests/system/test_bad_input.py::test_a_literal_secret_is_refused_and_never_printed",
            "tests/engine/runtime/test_secret_scrubber.py::test_what_a_worker_echoes_is_scrubbed_before_it_is_kept",
            "tests/engine/runtime/test_secret_scrubber.py::test_a_notice_is_scrubbed_before_it_is_made_durable",
            "tests/web/test_webhook_routes.py::test_nothing_of_a_request_is_logged",
            "tests/ledger/sites/test_webhook_key.py::test_the_key_is_made_once_and_readable_by_its_owner_alone",
        ),
    ),
    Promise(
        number="G8",
        title="memory stays flat",
        text="A million jobs in the ledger, or 300,000 outstanding, take a bounded amount of memory.",
        assumptions=(
            "An output is held in memory while it is collected, and again while its row is written or checked; of large ones few at a time.",
        ),
        breaks=("Many webhooks with many megabytes at the same moment: up to 256 MB of them are held.",),
        tests=(
            "tests/benchmarks/test_short.py::test_no_more_large_outputs_are_held_at_once_than_fit_into_a_page",
            "tests/cli/test_memory.py::test_large_blocks_that_are_free_go_back_to_the_system",
            "tests/engine/collecting/test_collector.py::test_no_more_is_asked_for_while_many_bytes_of_outputs_wait_to_be_written",
            "tests/engine/collecting/test_output_saver.py::test_while_much_waits_to_be_saved_no_more_is_collected",
            "tests/benchmarks/test_short.py::test_an_intake_stays_small_and_commands_answer_soon",
            "tests/web/test_webhook_routes.py::test_bodies_that_together_hold_too_much_memory_become_hints_and_room_is_found_again",
            "tests/ledger/transactions/test_plans.py::test_no_question_of_the_hot_paths_walks_through_all_jobs_or_sorts_them",
            "tests/ledger/transactions/test_plans.py::test_a_step_and_news_find_their_job_by_number",
            "tests/engine/sending/test_claimed_jobs.py::test_the_inputs_of_jobs_that_are_claimed_or_in_flight_are_bounded_in_memory",
            "tests/core/limits/test_transfer_slots.py::test_all_together_hold_no_more_than_memory_allows_but_one_may_always_go",
        ),
        figures={
            "benchmarks": (
                "restart: ",
                "intake: peak",
                "intake: status",
                "program: peak",
                "verify: 1,000,000",
                "outputs: ",
            ),
            "narrow": ("memory",),
        },
    ),
    Promise(
        number="G9",
        title="each fire is recorded once, and has one flow",
        text=(
            "Each nominal time of a schedule stands in one place: with its flow, skipped by the rule that was chosen, or in a "
            "gap that says why nothing was done. So it is whatever crashes, sleeps or looks at the same time. Each row of a "
            "stage that ends is handed over once, and a stage that waits for others begins once these are over."
        ),
        assumptions=(
            "Somebody looks: `serve` goes on, or a timer begins `tick`. `schedules check` says where nobody does.",
            "The clock is right within an hour. One that is set back fires nothing until it has come on.",
            "A function of a step has no effect but what it returns: it may be called again for a row after a crash.",
        ),
        breaks=(
            "Being away for longer than `catch-up`: these fires are missed, counted, and `backfill` makes up for them.",
            "More than 100 flows that wait in a `queue`: further fires are skipped, and it is said.",
        ),
        tests=(
            "tests/firing/test_weeks.py::test_whatever_crashes_sleeps_or_is_changed_each_fire_is_in_one_place",
            "tests/firing/test_kills.py::test_a_serve_and_three_ticks_that_are_killed_leave_each_fire_in_one_place",
            "tests/firing/test_asleep.py::test_after_a_sleep_each_rule_holds_for_what_came_meanwhile",
            "tests/firing/test_asleep.py::test_a_clock_that_is_set_back_fires_nothing_twice_and_is_told_once",
            "tests/core/pipelines/test_due_fires.py::test_each_fire_is_found_once_or_lies_in_one_gap",
            "tests/core/pipelines/test_due_fires.py::test_what_is_overdue_for_longer_than_catch_up_is_missed_to_the_microsecond",
            "tests/core/pipelines/test_overlap_policy.py::test_whatever_meets_no_fire_is_forgotten_and_never_too_many_run",
            "tests/conformance/test_pipelines.py::test_a_look_is_recorded_once_whoever_looks",
            "tests/ledger/postgres/test_ledger_time.py::test_a_schedule_fires_once_whichever_machine_looks",
            "tests/simulation/engines/test_engines.py::test_no_world_with_several_engines_violates_a_promise",
            "tests/conformance/test_pipelines.py::test_no_watermark_goes_back_with_the_clock",
            "tests/conformance/test_handovers.py::test_each_row_that_ends_is_owed_with_its_last_step",
            "tests/conformance/test_handovers.py::test_rows_arrive_once_with_their_lineage_and_their_counts",
            "tests/engine/flows/test_stages_elsewhere.py::test_a_stage_whose_rows_came_before_they_were_looked_at_is_not_over",
            "tests/engine/flows/test_command_stage.py::test_a_flow_held_before_its_command_goes_on_with_rows_that_were_queued_again",
            "tests/simulation/flows/test_flows.py::test_no_world_with_flows_violates_a_promise",
        ),
        figures={"firing": ("",), "failover.keepers": ("",), "benchmarks": ("pipelines: ",)},
    ),
    Promise(
        number="G10",
        title="a long job goes on from its newest checkpoint",
        text=(
            "A resumable job that is cut off begins again with the newest checkpoint that a question has seen. So it repeats "
            "at most what lies between two checkpoints and two questions."
        ),
        assumptions=(
            "Its worker reports a checkpoint once it is stored, and repeats it with each report: `/status` shows the latest only.",
            "Its worker waits for its reports before it returns, as `LongJob` does: the service takes one that comes after the result for news.",
        ),
        breaks=(
            "`--progress-every off`: then it is asked at its deadlines only, and what is repeated is what lies between those.",
            "A checkpoint of more than 64 KiB: it is told, and the one before stands.",
        ),
        tests=(
            "tests/engine/collecting/test_segment_tracker.py::test_a_job_of_nine_days_that_is_killed_every_five_hours_repeats_a_checkpoint_and_a_question_each_time",
            "tests/engine/collecting/test_segment_tracker.py::test_a_segment_is_given_the_newest_checkpoint_and_the_same_key",
            "tests/engine/collecting/test_segment_tracker.py::test_reports_that_come_in_any_order_leave_the_newest_checkpoint",
            "tests/engine/collecting/test_segment_tracker.py::test_a_job_of_a_week_is_asked_for_at_its_deadlines_only_where_nobody_wants_to_know",
            "tests/conformance/test_segments.py::test_whatever_the_order_of_reports_the_newest_checkpoint_stands",
            "tests/emulator/workers/test_official_worker.py::test_with_the_helper_no_report_comes_after_its_result_and_without_it_some_do",
            "tests/simulation/test_swarm.py::test_no_world_of_the_swarm_violates_a_promise",
        ),
        figures={"emulator.long_jobs": ("",)},
    ),
    Promise(
        number="G11",
        title="a form acts once, and on what was confirmed",
        text=(
            "What is asked from a page is done once for each confirmation, whatever is clicked, in how many tabs, and over "
            "restarts of the dashboard; and on no more than the page had counted. Who asked what, by which way, and what came "
            "of it stands in the ledger, in the transaction that did it or asked for it."
        ),
        assumptions=(
            "Whoever acts does so by the form that the confirmation shows: each confirmation has an id of its own, so two of them are two wishes.",
        ),
        breaks=(
            "What ends or fails between the count and the act, of jobs that are cancelled: fewer of them are no reason to ask again.",
            "A message that is sent again: that it was asked and that it was done are two transactions, and a process that is killed between leaves an action of which it says that nobody knows what came of it.",
        ),
        tests=(
            "tests/dashboard/actions/test_confirmed_form.py::test_a_form_acts_once_in_two_tabs_at_once_and_after_a_restart_of_the_dashboard",
            "tests/dashboard/actions/test_confirmed_form.py::test_another_count_than_was_confirmed_asks_again_and_does_nothing",
            "tests/dashboard/actions/test_confirmed_form.py::test_what_fails_after_the_count_is_not_among_those_that_were_confirmed",
            "tests/dashboard/actions/test_confirmed_form.py::test_what_was_begun_and_cut_off_says_that_it_is_not_known",
            "tests/dashboard/actions/test_at_work.py::test_what_nobody_does_now_is_done_once_by_whoever_works_next",
            "tests/conformance/test_actions.py::test_a_form_acts_once_whatever_it_asks_for",
            "tests/api/flows/test_asked_flows.py::test_what_the_command_line_asks_is_an_action_in_the_transaction_that_does_it",
        ),
    ),
    Promise(
        number="G12",
        title="no pod is left that is paid, and none is made twice",
        text=(
            "Each pod of a run (`--pods`) is in the ledger before the service is asked for it. It ends with the run, with a "
            "brake that holds it, or with its process; after a crash at any point it is ended, or goes on with its run, once "
            "somebody works on the ledger, or by `orchestrator runs tidy`. A request whose answer was lost is never made again "
            "before it is certain that it made no pod. A run stays in the ledger as long as a pod of it may be paid."
        ),
        assumptions=(
            "The account's list has a new pod within two minutes, under the name that it was given. One that comes later is terminated all the same, once somebody works on the ledger.",
            "The key may see and end pods, and the account's interface answers.",
        ),
        breaks=(
            "A ledger that is lost or deleted while pods are there: nobody else knows of them. Their names begin with that of the run.",
            "A process that is killed, and nobody who comes after it: its pods are paid until then. Every command in a terminal says so, and so do `status`, `doctor`, the dashboard and the alert `PodsLeft`.",
            "People who rename a pod: it is theirs from then on.",
        ),
        tests=(
            "tests/engine/pods/test_kills.py::test_after_a_kill_tidy_leaves_no_pod_that_is_paid",
            "tests/engine/pods/test_kills.py::test_after_a_kill_the_same_run_goes_on_with_its_pods",
            "tests/engine/pods/test_kills.py::test_killed_at_each_commit_nothing_is_left_that_is_paid",
            "tests/engine/pods/test_kills.py::test_after_a_kill_another_run_ends_the_pods_that_nobody_wants",
            "tests/engine/pods/test_kills.py::test_a_run_is_deleted_once_its_pods_are_ended",
            "tests/api/hosting/test_pods_handed_over.py::test_a_run_is_deleted_once_no_pod_of_it_can_come_that_nobody_would_end",
            "tests/engine/pods/test_lying_account.py::test_a_create_whose_answer_is_lost_is_found_by_its_name",
            "tests/engine/pods/test_lying_account.py::test_a_create_that_fails_and_does_nothing_is_asked_again_once_that_is_certain",
            "tests/engine/pods/test_lying_account.py::test_an_answer_about_another_pod_is_not_believed",
            "tests/engine/pods/test_lying_account.py::test_an_old_list_is_not_believed_when_a_pod_is_missing_in_it",
            "tests/engine/pods/test_lying_account.py::test_a_pod_that_comes_long_after_it_was_given_up_is_terminated",
            "tests/engine/pods/test_lying_account.py::test_one_that_cannot_be_ended_is_told_with_its_id",
            "tests/engine/pods/test_run_with_pods.py::test_pods_are_gone_once_a_brake_holds_the_run",
            "tests/system/test_pods.py::test_a_run_that_is_killed_leaves_no_pod_once_somebody_tidies",
        ),
    ),
    *OF_OUTPUTS,
    *OF_SERVERS,
)
