"""Crashes, signals, locks, and the files beside the ledger."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="our own crashes use up a job's uncertain tries",
        path="orchestrator/engine/maintenance/janitor.py::left_submitting",
        old="return transitions.left_unanswered(job, settle_at",
        new="return transitions.unanswered(job, settle_at",
        tests=(
            "tests/engine/maintenance/test_sent_or_not.py::test_being_caught_by_our_own_crashes_costs_none_of_the_tries",
        ),
    ),
    Fault(
        name="a ledger is worked on under two names",
        path="orchestrator/ledger/sqlite/file_locks.py::refuse_second_name",
        old="if names > 1 and",
        new="if names > 2 and",
        tests=(
            "tests/system/test_two_processes.py::test_a_ledger_under_a_second_name_is_refused_by_whoever_comes_second",
            "tests/ledger/test_migrations.py::test_a_ledger_with_a_second_name_is_refused_even_an_empty_one",
        ),
    ),
    Fault(
        name="a ledger that is deleted under a run goes unnoticed",
        path="orchestrator/ledger/sqlite/ledger_files.py::LedgerFiles.missing",
        old="if file_identity(self._file(suffix)) != identity:",
        new="if False:",
        tests=(
            "tests/api/runs/test_ledger_rescue.py",
            "tests/system/test_misplaced.py::test_without_its_lock_a_run_ends_and_its_ledger_is_as_it_was",
        ),
    ),
    Fault(
        name="only the name of a ledger is looked for, not the file",
        path="orchestrator/ledger/sqlite/ledger_files.py::LedgerFiles.missing",
        old="if file_identity(self._file(suffix)) != identity:",
        new="if file_identity(self._file(suffix)) is None:",
        tests=("tests/system/test_misplaced.py::test_a_ledger_that_is_lost_under_a_run_is_noticed_and_saved",),
    ),
    Fault(
        name="a run whose ledger is gone goes on sending",
        path="orchestrator/engine/process/engine_process.py::EngineProcess.begin",
        old="self._outer.start_soon(self._stop_when_lost)",
        new="",
        tests=("tests/system/test_misplaced.py::test_without_its_lock_a_run_ends_and_its_ledger_is_as_it_was",),
    ),
    Fault(
        name="a lost terminal kills",
        path="orchestrator/cli/framework/signals.py::stop_signals",
        old="(*asked, signal.SIGHUP)",
        new="asked",
        tests=(
            "tests/system/test_interruption.py::test_a_lost_terminal_stops_in_order_although_nothing_can_be_said_any_more",
            "tests/system/test_interruption.py::test_a_lost_terminal_is_not_a_second_signal",
        ),
    ),
    Fault(
        name="a display that nobody can see any more stops the run",
        path="orchestrator/cli/output/live_display.py::LiveConsole.info",
        old="with suppress(OSError): self._screen.print(Text(streams.shown(streams.named(line))))",
        new="self._screen.print(Text(streams.shown(streams.named(line))))",
        tests=(
            "tests/system/test_interruption.py::test_a_lost_terminal_stops_in_order_although_nothing_can_be_said_any_more",
        ),
    ),
    Fault(
        name="nohup is not heeded",
        path="orchestrator/cli/framework/signals.py::stop_signals",
        old="is signal.SIG_IGN",
        new="is None",
        tests=("tests/system/test_interruption.py::test_under_nohup_a_lost_terminal_is_nothing",),
    ),
    Fault(
        name="raised limits do not mind how many files may be open",
        path="orchestrator/engine/ports/service_registry.py::ServiceRegistry.part_of",
        old="within = within_connections(limits, self.connections)",
        new="within = dict(limits)",
        tests=("tests/system/test_few_files.py::test_raised_limits_are_bounded_by_the_files_that_may_be_open",),
    ),
    Fault(
        name="the limit of open files is left as it is",
        path="orchestrator/client/http/open_files.py::open_files_allowed",
        old="if soft >= reachable:",
        new="if soft:",
        tests=(
            "tests/system/test_few_files.py::test_the_limit_of_open_files_is_raised_without_a_listener_too",
            "tests/client/http/test_open_files.py::test_the_soft_limit_is_raised_as_far_as_needed_and_allowed",
        ),
    ),
    Fault(
        name="readers of the ledger are opened when they are needed",
        path="orchestrator/ledger/ledger.py::Ledger.prepare",
        old="await self._site.database.open_readers()",
        new="",
        tests=("tests/ledger/schema/test_storage_errors.py::test_a_ledger_has_all_its_connections_from_the_start",),
    ),
    Fault(
        name="a command is carried out by each who has read it",
        path="orchestrator/ledger/commands/command_repository.py::Commands.change_ledger",
        old='if await self._acknowledge(connection, command.id, Reply("")):',
        new='if await self._acknowledge(connection, command.id, Reply("")) or True:',
        tests=("tests/conformance/test_commands.py::test_what_is_acknowledged_is_not_carried_out_again",),
    ),
    Fault(
        name="a command that was acknowledged is acknowledged again",
        path="orchestrator/ledger/commands/command_repository.py::_FINISH",
        old='.where(commands.c.id == bindparam("of"), commands.c.done_at.is_(None))',
        new='.where(commands.c.id == bindparam("of"))',
        tests=("tests/conformance/test_commands.py::test_what_is_acknowledged_is_not_carried_out_again",),
    ),
    Fault(
        name="two processes give the same submission numbers",
        path="orchestrator/ledger/jobs/claims.py::next_submission",
        old="return -(-floor // SLOTS) * SLOTS + slot",
        new="return floor",
        tests=(
            "tests/conformance/test_claims.py::test_numbers_of_two_processes_never_meet_and_are_hardly_ahead_of_their_claims",
        ),
    ),
    Fault(
        name="what a process said long ago is believed",
        path="orchestrator/ledger/runs/heartbeats.py::Heartbeat.is_fresh",
        old="return not self.is_gone and abs(now - self.beaten_at) <= STALE_US",
        new="return not self.is_gone",
        tests=(
            "tests/conformance/test_heartbeats.py::test_what_was_said_over_half_a_minute_ago_is_not_believed_nor_what_is_so_far_ahead",
        ),
    ),
    Fault(
        name="a paused run is said to be held up for longer than it is",
        path="orchestrator/engine/sending/run_sender.py::RunSender.blocked_by",
        old="self._gate_results(RunControls())",
        new="self._gate_results(RunControls(pause=True))",
        tests=("tests/api/inspect/test_mended.py::test_a_run_that_goes_on_is_not_said_to_be_paused_any_more",),
    ),
    Fault(
        name="who follows asks the first process only to serve the run",
        path="orchestrator/api/hosting/follower.py::FollowedRun._ask_anew",
        old="if self._asked_of not in (None, self._process) and Action.SERVE not in self._asked_for:",
        new="if False:",
        tests=(
            "tests/api/hosting/test_follower.py::test_each_process_that_takes_the_place_of_the_one_that_was_asked_is_asked_too",
        ),
    ),
    Fault(
        name="what a dead process was asked for is paid for by the next one",
        path="orchestrator/engine/hosting/command_desk.py::CommandDesk._of_now",
        old="return OF_ANOTHER if self.asked_before.has(command.id) else await handler(command)",
        new="return await handler(command)",
        tests=(
            "tests/engine/hosting/test_run_host.py::test_what_was_asked_of_a_process_that_has_ended_is_not_done_by_the_next_one",
        ),
    ),
    Fault(
        name="jobs of a run that was taken back are queued again by who had chosen them before",
        path="orchestrator/ledger/commands/command_repository.py::Commands.apply",
        old="[step for step in steps if step.before.run in there]",
        new="steps",
        tests=("tests/conformance/test_commands.py::test_of_a_run_that_was_taken_back_nothing_is_done_again",),
    ),
    Fault(
        name="a process is not ended by who asked before later commands were and commits after them",
        path="orchestrator/ledger/commands/command_repository.py::Commands.end_asked",
        old="not since.has(each.id)",
        new="each.id > max(since.later, default=0)",
        tests=(
            "tests/api/admin/test_stopping_several.py::test_what_was_asked_before_later_commands_and_is_committed_after_them_is_seen_by_who_came_between",
        ),
    ),
    Fault(
        name="rows that come later are not counted by who serves the run already",
        path="orchestrator/engine/hosting/run_host.py::RunHost.serve",
        old="await session.recount()\nif session.progress.to_be_saved:",
        new="if session.progress.to_be_saved:",
        tests=(
            "tests/engine/hosting/test_run_host.py::test_a_run_that_came_beside_it_is_sent_with_the_rows_that_come_later",
        ),
    ),
    Fault(
        name="workers are raised before the ledger knows what they were",
        path="orchestrator/engine/hosting/lent_bounds.py::LentBounds.change",
        old="await self._ledger.runs.scaling_overrides.write(run.endpoint_id, self._services.rest_url, loan)\ntry:",
        new="try:",
        tests=("tests/engine/hosting/test_worker_scaling.py::test_after_a_kill_runs_tidy_puts_them_back_once",),
    ),
    Fault(
        name="workers that a person has changed are put back all the same",
        path="orchestrator/core/gates/scaling_override.py::restored",
        old="most = override.before.most if now.most in {each.most for each in ours} else now.most",
        new="most = override.before.most",
        tests=(
            "tests/engine/hosting/test_worker_scaling.py::test_what_a_person_has_changed_after_a_kill_is_left_alone_and_said",
        ),
    ),
    Fault(
        name="a run that is released is sent to its end",
        path="orchestrator/engine/hosting/run_session.py::RunSession.release",
        old="await self.hold_back()",
        new="",
        tests=(
            "tests/engine/hosting/test_run_host.py::test_a_run_that_is_released_is_sent_no_more_until_somebody_asks_again",
        ),
    ),
    Fault(
        name="the ledger's file is opened beside SQLite",
        path="orchestrator/ledger/migrations.py::version_of",
        old="with storage_errors(path), _foreign_files(path):",
        new='path.open("rb").close()\nwith storage_errors(path), _foreign_files(path):',
        tests=(
            "tests/ledger/test_migrations.py::test_looking_at_a_ledger_leaves_the_locks_of_an_open_connection_alone",
        ),
    ),
    Fault(
        name="what is asked now is done before what was asked earlier",
        path="orchestrator/api/runs/process_commands.py::ask_process",
        old="if each.id <= number and",
        new="if each.id == number and",
        tests=(
            "tests/cli/runs/test_control.py::test_what_was_asked_by_somebody_who_was_killed_is_done_before_what_is_asked_later",
        ),
    ),
    Fault(
        name="who asked a process that has ended does not ask the next one",
        path="orchestrator/api/hosting/follower.py::FollowedRun.ask",
        old="if acknowledged.code is not ReplyCode.ASKED_ANOTHER:",
        new="if acknowledged.outcome:",
        tests=(
            "tests/engine/commands/test_command_inbox.py::test_who_asks_while_one_process_takes_the_place_of_another_asks_again",
        ),
    ),
    Fault(
        name="the command to go on with names a key",
        path="orchestrator/settings/parsers/service_parsers.py::format_service_keys",
        old="for url, key in held.items() if REFERENCE.fullmatch(key)]",
        new="for url, key in held.items()]",
        tests=("tests/cli/test_continuing.py::test_a_key_that_was_given_itself_is_not_named",),
    ),
    Fault(
        name="a run without due jobs keeps its turn while the endpoint is silent",
        path="orchestrator/engine/sending/lane_sender.py::LaneSender._unanswered_s",
        old="await run.look_ahead(self._operation)\nif run.none_s(self._operation):\n    return 0.0",
        new="if due_s := self._turns._until_s(await run.next_due_at(self._operation)):\n    return due_s",
        tests=(
            "tests/engine/hosting/test_side_by_side.py::test_a_run_without_due_jobs_does_not_keep_the_others_from_asking_whether_a_silent_endpoint_answers",
        ),
    ),
    Fault(
        name="who follows notes the files of a ledger before it has it open",
        path="orchestrator/ledger/opening.py::command_ledger",
        old="await ledger.commits_of_others()",
        new="pass",
        tests=("tests/ledger/test_migrations.py::test_who_opens_a_ledger_as_its_last_user_leaves_knows_its_files",),
    ),
    Fault(
        name="that a run is released is signalled to nobody",
        path="orchestrator/ledger/runs/releases.py::Releases.set",
        old="self._access.signalling",
        new="self._access.shared",
        tests=(
            "tests/conformance/test_runs.py::test_those_are_to_be_served_that_have_something_to_do_and_that_nobody_has_released",
        ),
    ),
    Fault(
        name="that a flow goes on by a late step is signalled to nobody",
        path="orchestrator/ledger/transitions/handover_debts.py::owed_write",
        old="are_signalled = are_signalled or going_on.rowcount > 0",
        new="pass",
        tests=(
            "tests/conformance/test_handovers.py::test_a_flow_that_has_ended_goes_on_once_a_job_of_its_is_queued_again",
        ),
    ),
    Fault(
        name="engines of one process signal nothing to each other",
        path="orchestrator/ledger/postgres/database.py",
        old="coalesce(sum(signals), 0)",
        new="coalesce(sum(signals) FILTER (WHERE id <> :me), 0)",
        tests=(
            "tests/ledger/postgres/test_database.py::test_what_is_signalled_by_anybody_and_notices_of_others_are_noticed_and_no_other_commit",
            "tests/system/test_shared_ledger.py::test_a_flow_goes_on_at_once_where_the_engines_of_its_stages_and_of_its_schedule_are_in_one_process",
        ),
    ),
    Fault(
        name="what a process has signalled is forgotten as it ends",
        path="orchestrator/ledger/postgres/database.py",
        old="signals = writers.signals + gone.signals",
        new="signals = writers.signals",
        tests=(
            "tests/ledger/postgres/test_database.py::test_what_is_signalled_by_anybody_and_notices_of_others_are_noticed_and_no_other_commit",
        ),
    ),
    Fault(
        name="an engine that has ended goes on hearing of steps",
        path="orchestrator/engine/process/engine_process.py::EngineProcess.joined",
        old="self.ledger.writer.subscribers.remove(engine.steps.tell)",
        new="pass",
        tests=(
            "tests/engine/hosting/test_several_engines.py::test_nothing_is_left_of_an_engine_that_has_ended_and_its_process_goes_on",
        ),
    ),
    Fault(
        name="one of several processes that has no part of the ledger does not hear that it is to stop",
        path="orchestrator/api/hosting/shared_host.py::_sharing",
        old="around.start_soon(watch.serve)",
        new="pass",
        tests=(
            "tests/api/hosting/test_shared_ledger.py::test_all_end_once_somebody_asks_for_that_also_one_that_has_nothing",
        ),
    ),
    Fault(
        name="what a process has said counts though the ledger has it no more",
        path="orchestrator/ledger/runs/heartbeats.py::Heartbeat.is_fresh",
        old="not self.is_gone and",
        new="True and",
        tests=(
            "tests/ledger/processes/test_dead_heartbeats.py::test_what_the_dead_have_said_is_not_shown_as_of_now_and_who_spoke_before_a_take_over_still_works",
        ),
    ),
    Fault(
        name="each engine carries out the commands of all runs",
        path="orchestrator/engine/commands/inbox.py::CommandInbox._is_ours",
        old="return self._scope.has(command.at_endpoint)",
        new="return True",
        tests=(
            "tests/engine/commands/test_whose_command.py::test_a_command_is_carried_out_by_the_engine_of_its_run_and_one_of_no_run_by_the_keepers",
        ),
    ),
    Fault(
        name="what was released is sent by the next engine",
        path="orchestrator/engine/hosting/run_host.py::RunHost.release_asked",
        old="await self.ledger.runs.releases.set(command.run, is_released=True)",
        new="pass",
        tests=(
            "tests/engine/commands/test_whose_command.py::test_a_run_is_served_that_others_take_in_and_none_that_somebody_has_released",
        ),
    ),
)
