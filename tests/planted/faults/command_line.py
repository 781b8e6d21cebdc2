"""The command line, its files and streams, and the addresses that it is given."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a name behind flags is none of its noun's",
        path="orchestrator/cli/framework/command_groups.py::NounGroup.parse_args",
        old="verb = self._with_flags(ctx, args)",
        new="verb = self.default_verb",
        tests=("tests/cli/framework/test_nouns.py::test_a_noun_with_a_name_is_about_what_is_called_so",),
    ),
    Fault(
        name="the next command says nothing of workers that a killed run has left raised",
        path="orchestrator/cli/framework/runner.py::carry_out_at_ledger",
        old="await tell_raised(ledger)",
        new="pass",
        tests=(
            "tests/cli/framework/test_raised_workers.py::test_any_command_in_a_terminal_says_which_workers_are_still_paid",
        ),
    ),
    Fault(
        name="the account is asked about ids",
        path="orchestrator/settings/parsers/name_parsers.py::is_endpoint_name",
        old='"/" in given or looks_like_an_id(given)',
        new='"/" in given',
        tests=("tests/cli/framework/test_endpoint_names.py::test_an_id_needs_no_key_and_no_request",),
    ),
    Fault(
        name="a run goes on with the key of another account",
        path="orchestrator/api/runs/settings_check.py::check_account",
        old="if not is_same_account(run.service_url, request.connection.serverless_url):",
        new="if False:",
        tests=("tests/api/foreground/test_profiles.py::test_a_run_stays_with_its_account_whatever_others_ask_for",),
    ),
    Fault(
        name="a run forgets whose account it was begun with",
        path="orchestrator/api/runs/service_connection.py::connection_of",
        old="place(connection.serverless_url, choices[connection_settings.PROFILE])",
        new="place(connection.serverless_url, None)",
        tests=(
            "tests/cli/framework/test_profiles.py::test_a_profile_brings_its_own_key_and_addresses_over_all_but_flags",
            "tests/cli/framework/test_profiles.py::test_every_command_that_sends_takes_a_profile",
        ),
    ),
    Fault(
        name="a key goes to where a variable of another account says",
        path="orchestrator/settings/sources.py::choose",
        old="{key: text for key, text in set_here.items() if key not in OF_PROFILES.settings}",
        new="dict(set_here)",
        tests=("tests/cli/framework/test_profiles.py::test_addresses_that_a_profile_does_not_say_are_no_variables",),
    ),
    Fault(
        name="a flag leads the key of one account to another",
        path="orchestrator/settings/configuration_file.py::_check_leads_nowhere_else",
        old="if others and name not in others:",
        new="if False:",
        tests=("tests/cli/framework/test_profiles.py::test_no_flag_leads_the_key_of_one_account_to_another",),
    ),
    Fault(
        name="the key of another service goes to the public one",
        path="orchestrator/cli/framework/service_access.py::_check_profile",
        old="if profile is not None and elsewhere and unsaid:",
        new="if False:",
        tests=(
            "tests/cli/framework/test_profiles.py::test_the_key_of_an_account_elsewhere_does_not_go_to_the_public_service",
        ),
    ),
    Fault(
        name="the account that the shell has is asked about an endpoint of another's run",
        path="orchestrator/cli/framework/endpoint_names.py::id_at",
        old="PROFILE.name: profile_of(place),",
        new="",
        tests=("tests/cli/framework/test_endpoint_names.py::test_what_is_asked_of_a_run_asks_the_account_of_the_run",),
    ),
    Fault(
        name="a stage of one account is sent with the key of another",
        path="orchestrator/api/flows/stage_rows.py::_address_of",
        old="if profile is not None and profile != profile_of(ours):",
        new="if False:",
        tests=("tests/api/flows/test_flows.py::test_a_stage_of_a_profile_is_sent_with_no_other_key",),
    ),
    Fault(
        name="an input that cannot be read to its end is taken for a defect",
        path="orchestrator/formats/input/readers.py::until_unreadable",
        old="except OSError as error:\n    yield",
        new="except ZeroDivisionError as error:\n    yield",
        tests=(
            "tests/formats/input/test_jsonl.py::test_an_input_that_cannot_be_read_to_its_end_is_a_problem_of_the_line_where_it_broke",
        ),
    ),
    Fault(
        name="what is left of an input is taken for the whole",
        path="orchestrator/formats/input/lines.py::read_lines",
        old="stream.tell() < size",
        new="stream.tell() < 0",
        tests=(
            "tests/formats/input/test_jsonl.py::test_a_file_that_becomes_shorter_while_it_is_read_is_not_taken_for_a_whole_one",
        ),
    ),
    Fault(
        name="want of memory is taken for a defect",
        path="orchestrator/cli/framework/runner.py::_explain_unforeseen",
        old="if is_starved(cause):",
        new="if False:",
        tests=(
            "tests/cli/framework/test_exit_codes.py::test_a_system_that_gives_no_more_memory_or_threads_is_told_as_such",
            "tests/system/test_streams.py::test_a_limit_of_memory_ends_a_run_in_words_and_it_can_be_resumed",
        ),
    ),
    Fault(
        name="a pipe that nobody reads is waited for",
        path="orchestrator/formats/output/atomic_file.py::_open_stream",
        old="os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK)",
        new="os.O_APPEND | os.O_CLOEXEC)",
        tests=("tests/system/test_streams.py::test_a_pipe_that_nobody_reads_holds_nothing_up_and_costs_nothing",),
    ),
    Fault(
        name="a pipe whose reader takes its time keeps signals out",
        path="orchestrator/api/outcomes/result_files.py::_Written.finish",
        old="await to_thread.run_sync(self._file.finish)",
        new="self._file.finish()",
        tests=(
            "tests/system/test_streams.py::test_a_pipe_whose_reader_takes_its_time_leaves_the_program_to_its_signals",
        ),
    ),
    Fault(
        name="an output that is a socket is found when all is paid",
        path="orchestrator/formats/output/atomic_file.py::check_writable",
        old="_check_kind(path)",
        new="",
        tests=(
            "tests/system/test_streams.py::test_a_socket_is_refused_before_anything_is_sent",
            "tests/formats/output/test_atomic_file.py::test_a_socket_is_no_file",
        ),
    ),
    Fault(
        name="a file gets the number of a standard stream that was closed",
        path="orchestrator/cli/__init__.py::main",
        old="streams.open_streams()",
        new="",
        tests=(
            "tests/system/test_streams.py::test_standard_streams_that_are_closed_at_the_start_are_no_reason_to_fail",
        ),
    ),
    Fault(
        name="status asks about one run after the other",
        path="orchestrator/ledger/reports/run_summaries.py::overview",
        old="counts=await Runs(view).counts_by_run(among),",
        new="counts={r.id: await Runs(view).counts(r.id) for r in await Runs(view).all()},",
        tests=(
            "tests/api/inspect/test_many_runs.py::test_a_look_at_ten_thousand_runs_takes_as_many_questions_as_a_look_at_one",
        ),
    ),
    Fault(
        name="status shows every run there ever was",
        path="orchestrator/api/inspect/status.py::latest",
        old="None if most is None else await opened.runs.most_wanted(most)",
        new="None",
        tests=(
            "tests/api/inspect/test_naming.py::test_of_many_runs_those_are_shown_that_are_not_finished_and_then_the_newest",
        ),
    ),
    Fault(
        name="what is safe is looked up only where nobody works on the ledger",
        path="orchestrator/api/inspect/safe_offline.py::safe_by_run",
        old="if any(run.id not in said for run in at_risk):",
        new="if any(run.id in said for run in at_risk):",
        tests=(
            "tests/api/inspect/test_many_runs.py::test_what_the_process_at_work_says_of_some_runs_is_believed_and_the_others_are_looked_at",
        ),
    ),
    Fault(
        name="the fault of a proxy is told as the service's",
        path="orchestrator/client/http/transport.py::Transport._way_to",
        old="if self._proxy is None:\n    return host",
        new="if self._proxy is None or host:\n    return host",
        tests=(
            "tests/client/http/test_transport.py::test_a_proxy_that_opens_no_tunnel_means_not_sent",
            "tests/client/http/test_transport.py::test_a_proxy_that_is_not_there_is_named_without_its_credentials",
        ),
    ),
    Fault(
        name="a proxy without a scheme cannot be used",
        path="orchestrator/client/http/transport.py::proxy_of",
        old='f"http://{text}"',
        new="text",
        tests=(
            "tests/client/http/test_transport.py::test_a_proxy_that_wants_authentication_is_an_answer_with_and_without_a_tunnel",
        ),
    ),
    Fault(
        name="what a proxy of another kind was for goes past it",
        path="orchestrator/client/http/transport.py::Transport.send",
        old="self.check_proxy()",
        new="pass",
        tests=("tests/client/http/test_transport.py::test_nothing_is_sent_past_a_proxy_that_cannot_be_used",),
    ),
    Fault(
        name="a proxy that cannot be used is found when jobs are claimed",
        path="orchestrator/client/jobs/service.py::Service._of_service",
        old="self._transport.check_proxy()",
        new="",
        tests=(
            "tests/client/jobs/test_serverless.py::test_a_proxy_that_cannot_be_used_is_told_before_anything_is_sent",
        ),
    ),
    Fault(
        name="a tunnel that wants authentication is asked for again for ever",
        path="orchestrator/client/http/transport.py::_PROXY_AUTHENTICATION",
        old="_PROXY_AUTHENTICATION: Final = 407",
        new="_PROXY_AUTHENTICATION: Final = 0",
        tests=(
            "tests/client/http/test_transport.py::test_a_proxy_that_wants_authentication_is_an_answer_with_and_without_a_tunnel",
        ),
    ),
    Fault(
        name="pages of results are bounded in jobs alone",
        path="orchestrator/ledger/schema/row_codec.py::fitting",
        old="if taken and held > bytes_max:",
        new="if taken and held < 0:",
        tests=(
            "tests/conformance/test_reads.py::test_pages_hold_only_so_many_bytes_of_outputs_and_at_least_one",
            "tests/benchmarks/test_short.py::test_no_more_large_outputs_are_held_at_once_than_fit_into_a_page",
        ),
    ),
    Fault(
        name="any number of large outputs shares a transaction",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._take_batch",
        old="(batch and held > BATCH_BYTES_MAX)",
        new="(batch and held < 0)",
        tests=(
            "tests/ledger/transactions/test_group_commit.py::test_outputs_share_a_transaction_and_wait_in_memory_only_as_far_as_they_are_small_together",
        ),
    ),
    Fault(
        name="the pages of large outputs fill the cache",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._drain",
        old=">= SHRINK_BYTES_MIN:",
        new=">= SHRINK_BYTES_MIN * 1_000:",
        tests=("tests/ledger/transactions/test_group_commit.py::test_pages_of_large_outputs_are_not_kept",),
    ),
    Fault(
        name="memory that large outputs took is kept",
        path="orchestrator/cli/framework/runner.py::give_back_large_blocks",
        old=("mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)\nmallopt(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)"),
        new="assert mallopt is not None",
        tests=("tests/cli/test_memory.py::test_large_blocks_that_are_free_go_back_to_the_system",),
    ),
    Fault(
        name="results are asked for although what came is not written",
        path="orchestrator/engine/collecting/collector.py::Collector._poll",
        old="await self._endpoint.api.down.room()",
        new="",
        tests=(
            "tests/engine/collecting/test_collector.py::test_no_more_is_asked_for_while_many_bytes_of_outputs_wait_to_be_written",
        ),
    ),
    Fault(
        name="an output is looked into again when it is written out",
        path="orchestrator/api/outcomes/result_files.py::_row",
        old='b"null" if output is None else output',
        new='b"null" if output is None else msgspec.json.format(output, indent=-1)',
        tests=(
            "tests/api/outcomes/test_nesting.py::test_an_output_that_could_be_collected_can_be_written_and_others_keep_nothing_up",
        ),
    ),
    Fault(
        name="one damaged output stops the whole export",
        path="orchestrator/api/outcomes/outcome_pages.py::row_of",
        old="except DamagedError:\n    return",
        new="except DamagedError if job.job == 0 else ():\n    return",
        tests=(
            "tests/api/outcomes/test_compare.py::test_an_output_that_is_damaged_in_the_ledger_stands_among_the_errors_and_stops_no_other",
        ),
    ),
    Fault(
        name="the command to continue with forgets what belongs to the process",
        path="orchestrator/settings/command_flags.py::PROCESS",
        old="(LEDGER, OUTPUT, ERRORS, *TRANSPORT)",
        new="(LEDGER, OUTPUT, ERRORS)",
        tests=("tests/cli/test_continuing.py::test_the_command_that_is_named_leads_to_the_same_process",),
    ),
    Fault(
        name="the command to continue with forgets the configuration file",
        path="orchestrator/api/runs/next_command.py::_configuration",
        old="return command_flags.CONFIG.words(given.named), given",
        new="return [], given",
        tests=(
            "tests/cli/test_continuing.py::test_a_file_that_was_named_is_named_again_where_another_or_a_key_would_be_missed",
        ),
    ),
    Fault(
        name="the command to continue with trusts a variable to be there again",
        path="orchestrator/api/runs/next_command.py::_words",
        old="setting.key in configuration.in_environment or",
        new="",
        tests=(
            "tests/cli/test_continuing.py::test_what_was_said_against_a_variable_is_named_and_the_ledger_of_a_variable_too",
        ),
    ),
    Fault(
        name="a resume forgets where the files are",
        path="orchestrator/api/foreground/run_intake.py::RunIntake.found",
        old="return run, settings_of(run, request, is_stage=is_stage, now=ledger.now(), machine=machine)",
        new="return run, request.settings or run.settings",
        tests=("tests/system/test_resume.py::test_a_resume_that_names_no_files_writes_to_those_of_before",),
    ),
    Fault(
        name="a slip of the pen leaves a ledger",
        path="orchestrator/api/foreground/run.py::run",
        old="await check_given(request)",
        new="",
        tests=("tests/system/test_bad_input.py::test_a_slip_of_the_pen_leaves_nothing_behind",),
    ),
    Fault(
        name="settings of a program are kept that nobody can read again",
        path="orchestrator/api/runs/run_identity.py::_check_settings",
        old="msgspec.convert(msgspec.to_builtins(settings), RunSettings)",
        new="pass",
        tests=(
            "tests/api/runs/test_run_identity.py::test_settings_that_could_not_be_read_again_or_have_no_meaning_are_refused",
        ),
    ),
    Fault(
        name="marks that turn the direction of a text are handed to the terminal by tables",
        path="orchestrator/cli/output/tables.py::harmless",
        old="return visible(text.expandtabs())",
        new="return text",
        tests=("tests/cli/output/test_printing.py::test_a_worker_s_words_neither_move_nor_hide_anything_in_any_view",),
    ),
    Fault(
        name="rows and JSON reach a terminal with what it would obey",
        path="orchestrator/cli/output/streams.py::put_data",
        old="is_seen = sys.stdout.isatty()\nput(",
        new="is_seen = False\nput(",
        tests=("tests/cli/output/test_printing.py::test_a_worker_s_words_neither_move_nor_hide_anything_in_any_view",),
    ),
    Fault(
        name="a terminal is handed escape sequences that a message repeats",
        path="orchestrator/cli/output/streams.py::shown",
        old="return visible(text)",
        new="return text",
        tests=("tests/cli/output/test_printing.py::test_what_a_terminal_would_obey_or_not_show_is_written_out",),
    ),
    Fault(
        name="a file whose name is no text is found out in the middle of the run",
        path="orchestrator/api/runs/run_identity.py::_check_is_text",
        old="path.encode()",
        new="pass",
        tests=(
            "tests/system/test_bad_input.py::test_a_name_of_a_file_that_is_no_text_is_refused_before_anything_is_done",
        ),
    ),
    Fault(
        name="a link to the ledger hides its files",
        path="orchestrator/settings/addresses/companions.py::real_file",
        old="return Path(os.path.realpath(ledger))",
        new="return ledger.absolute()",
        tests=("tests/api/outcomes/test_result_files.py::test_links_to_the_ledger_and_to_its_files_do_not_hide_them",),
    ),
    Fault(
        name="a hard link hides that two files are one",
        path="orchestrator/formats/output/atomic_file.py::same_file",
        old="return first.samefile(second) and first.is_file()",
        new="return False",
        tests=("tests/api/outcomes/test_result_files.py::test_links_to_the_ledger_and_to_its_files_do_not_hide_them",),
    ),
    Fault(
        name="a name that begins with 127. counts as this machine",
        path="orchestrator/core/service/addresses.py::is_loopback",
        old='return name == _LOCAL_NAME or name.endswith(f".{_LOCAL_NAME}")',
        new='return name.endswith(_LOCAL_NAME) or name.startswith("127.")',
        tests=("tests/core/service/test_addresses.py::test_what_only_looks_like_it",),
    ),
    Fault(
        name="a flag has another name than in the guarantees",
        path="orchestrator/settings/run_settings.py::RunSettings",
        old='"result-retention"',
        new='"retention"',
        tests=("tests/cli/test_reference.py::test_every_flag_that_the_documentation_names_is_there",),
    ),
)
