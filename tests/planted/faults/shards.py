"""What a process that shares a ledger with others must not do with what changes hands."""

from tests.planted.faults.fault import Fault

AGAIN = "tests/api/hosting/test_joining_again.py"
BIDS = "tests/core/ownership/test_shard_bids.py"
ENGINES = "tests/api/hosting/test_shard_engines.py"
DUTIES = "tests/core/ownership/test_shard_duties.py"
LEASES = "tests/ledger/processes/test_leases.py"
RUN_SHARE = "tests/api/hosting/test_run_share.py"
FOLDERS = "tests/api/hosting/test_pipeline_folders.py"
AWAY = "tests/engine/flows/test_away_folder.py"
SHARED = "tests/api/hosting/test_shared_ledger.py"
STOPPING = "tests/api/hosting/test_stopping.py"
ENGINES = "tests/api/hosting/test_shard_engines.py"
HOST = "tests/engine/hosting/test_run_host.py"
KNOWN_BEFORE = f"{HOST}::test_jobs_are_sent_to_where_they_may_be_though_that_was_known_before"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="an endpoint that comes to an engine at work brings nothing of the runs that others served there",
        path="orchestrator/engine/engine.py::Engine.reach",
        old="self._begin_endpoints() if self.scope.is_everything else self.learn()",
        new="self._begin_endpoints()",
        tests=(
            "tests/engine/hosting/test_several_engines.py::test_what_was_left_at_an_endpoint_that_comes_to_an_engine_at_work_is_collected_by_it",
        ),
    ),
    Fault(
        name="a function is run by no process that shares a ledger",
        path="orchestrator/engine/ports/service_registry.py::ServiceRegistry.check_reach",
        old="if run.id in self.own_runs:",
        new="if False:",
        tests=(f"{RUN_SHARE}::test_a_function_of_somebody_s_is_run_where_nobody_else_serves_the_ledger",),
    ),
    Fault(
        name="what cannot be served is never cancelled",
        path="orchestrator/engine/hosting/run_host.py::RunHost.__init__",
        old="lambda run: run in endpoints.homes.endpoints or run in runs.unservable",
        new="lambda run: run in endpoints.homes.endpoints",
        tests=(f"{HOST}::test_one_that_is_held_is_cancelled_all_the_same_and_held_no_more",),
    ),
    Fault(
        name="pods end with the engine that hands their shard over",
        path="orchestrator/engine/engine.py::Engine.working",
        old="if not (self.groups.are_succeeded or is_deposed):",
        new="if not is_deposed:",
        tests=(
            "tests/api/hosting/test_pods_handed_over.py::test_pods_go_on_where_another_process_takes_their_run_over",
        ),
    ),
    Fault(
        name="that outputs become files on other machines is not said",
        path="orchestrator/api/foreground/foreground_run.py::Foreground._join",
        old="if self._host.is_shared and acknowledged.by is not None:",
        new="if False:",
        tests=(f"{RUN_SHARE}::test_it_is_said_once_where_others_write_files_of_outputs",),
    ),
    Fault(
        name="the keeper answers for all of several processes that are to end",
        path="orchestrator/engine/commands/inbox.py::CommandInbox._is_ours",
        old="return self._scope.is_everything and command.ends(self._ledger.runs.heartbeats.epoch)",
        new="return self._scope.is_keeper",
        tests=(
            "tests/engine/commands/test_whose_command.py::test_what_asks_for_the_end_of_processes_is_left_to_each_of_several",
        ),
    ),
    Fault(
        name="what was asked of a process that has ended stays to be done",
        path="orchestrator/engine/process/stop_watch.py::StopWatch._poll",
        old="await self._finish_old(self._before)",
        new="pass",
        tests=(f"{STOPPING}::test_what_was_asked_of_those_that_are_dead_ends_none_that_comes_later",),
    ),
    Fault(
        name="one of several processes obeys what was asked before it was there",
        path="orchestrator/engine/process/stop_watch.py::StopWatch._poll",
        old="self._before = await self.ledger.commands.asked()",
        new="self._before = AskedCommands()",
        tests=(f"{STOPPING}::test_what_was_asked_of_those_that_are_dead_ends_none_that_comes_later",),
    ),
    Fault(
        name="a shard is given while its engine goes on",
        path="orchestrator/core/ownership/shard_duties.py::shard_duties",
        old="give=sorted(leaving - set(at_work))",
        new="give=sorted(leaving)",
        tests=(f"{DUTIES}::test_what_another_one_asks_for_is_given_once_its_engine_has_ended",),
    ),
    Fault(
        name="what another process wants is taken as well",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_take",
        old="unwanted = [each for each in free if each.wanted_by is None]",
        new="unwanted = free",
        tests=(f"{BIDS}::test_one_that_is_wanted_is_left_to_who_wants_it",),
    ),
    Fault(
        name="a shard that was asked for and has nothing to do any more is nobody's for ever",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_take",
        old="for each in shards if each.owner is None and each.wanted_by == self._me",
        new="for each in free if each.wanted_by == self._me",
        tests=(f"{BIDS}::test_what_was_asked_for_is_taken_though_nothing_is_to_be_done_there_any_more",),
    ),
    Fault(
        name="a shard is asked for in which nothing is to be done",
        path="orchestrator/core/ownership/shard_bids.py::_may_ask_for",
        old=" and shard.is_needed",
        new="",
        tests=(
            f"{BIDS}::test_where_nothing_is_to_be_done_nobody_bids_and_whoever_has_it_lets_go_of_it_after_a_while",
            f"{SHARED}::test_who_comes_gets_a_part_in_which_something_is_to_be_done",
        ),
    ),
    Fault(
        name="shards become one while their engines work",
        path="orchestrator/core/ownership/shard_duties.py::shard_duties",
        old="if not set(pair) & set(at_work)]",
        new="if pair]",
        tests=(f"{DUTIES}::test_what_has_come_to_be_one_is_merged_once_neither_engine_works_and_begins_as_one",),
    ),
    Fault(
        name="an engine begins beside one that is still at the same endpoints",
        path="orchestrator/core/ownership/shard_duties.py::shards_to_begin",
        old="if not set(mine).issuperset(at_work):",
        new="if False:",
        tests=(f"{DUTIES}::test_an_engine_ends_whose_shard_is_ours_no_more_and_none_begins_before_it_has",),
    ),
    Fault(
        name="a run that comes to have another endpoint sends there before that is ours",
        path="orchestrator/engine/runtime/scope.py::Scope.take_in",
        old="await self._join(endpoint)",
        new="pass",
        tests=(
            f"{SHARED}::test_a_run_that_comes_to_have_an_endpoint_of_another_one_is_served_by_one_of_them",
            "tests/engine/runtime/test_scope.py::test_an_endpoint_is_in_it_once_it_was_joined_and_not_where_it_cannot_be",
        ),
    ),
    Fault(
        name="of shards that become one it is forgotten that an owner of the other has died",
        path="orchestrator/ledger/processes/leases.py::Leases.merge",
        old="await self._driver.execute(_LEFT_BY_EITHER, *pair)",
        new="pass",
        tests=(f"{LEASES}::test_of_shards_that_become_one_it_stays_known_that_an_owner_of_either_has_died",),
    ),
    Fault(
        name="who stops keeps what it has asked for until it has ended",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._leave_the_rest",
        old="await self.owner.ask_for_nothing()",
        new="pass",
        tests=(f"{STOPPING}::test_what_it_has_asked_for_is_anybodys_before_its_engines_have_ended",),
    ),
    Fault(
        name="who stops keeps a shard whose engine has just ended until it has ended",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._leave_the_rest",
        old="await self.owner.give(held[number])",
        new="pass",
        tests=(f"{STOPPING}::test_one_whose_engine_has_just_ended_is_given_before_the_others_have",),
    ),
    Fault(
        name="a run that loses its share as it ends fails by that",
        path="orchestrator/api/foreground/run_share.py::RunShare._finish",
        old="if not isinstance(leading(error), DeposedError):\n    raise",
        new="raise",
        tests=(f"{RUN_SHARE}::test_who_loses_its_share_as_it_tells_of_the_end_ends_with_a_summary_all_the_same",),
    ),
    Fault(
        name="who joins again ends where the ledger cannot be reached just now",
        path="orchestrator/api/hosting/shared_host.py::serve_shared",
        old="case LedgerUnavailableError() as cause if is_patient and not has_joined:",
        new="case LedgerUnavailableError() as cause if not is_patient and not has_joined:",
        tests=(
            f"{AGAIN}::test_who_was_declared_dead_joins_again_once_the_ledger_can_be_reached",
            f"{AGAIN}::test_a_run_that_cannot_join_follows_until_it_can",
            f"{AGAIN}::test_who_joins_for_the_first_time_is_told_at_once_that_it_cannot",
        ),
    ),
    Fault(
        name="a line that was cut between two words is a defect of ours",
        path="orchestrator/ledger/processes/owners_line.py::line_errors",
        old="raise lost(name) from error",
        new="raise",
        tests=(f"{AGAIN}::test_what_is_cut_between_two_words_is_a_ledger_that_cannot_be_used_just_now",),
    ),
    Fault(
        name="what a server refuses to who wants all of a ledger is a defect of ours",
        path="orchestrator/ledger/processes/tenure.py::tenure_of",
        old="with line_errors(name):",
        new="if True:",
        tests=("tests/ledger/administration/test_roles.py::test_who_only_reads_sees_all_and_changes_nothing",),
    ),
    Fault(
        name="who follows a run goes by connections, not by beats",
        path="orchestrator/api/foreground/run_share.py::RunShare._is_served",
        old="return len(self._watch.silent(answered_at)) < len(servers)",
        new="return len(servers) > 0",
        tests=(f"{RUN_SHARE}::test_it_goes_on_itself_where_who_serves_is_connected_and_beats_no_more",),
    ),
    Fault(
        name="who follows a run counts as silence that nobody could be asked for a while",
        path="orchestrator/api/foreground/run_share.py::RunShare._is_served",
        old="self._watch, self._back_at = BeatWatch(), answered_at",
        new="self._back_at = answered_at",
        tests=(f"{RUN_SHARE}::test_who_comes_back_to_the_ledger_before_who_serves_it_waits_for_that_one",),
    ),
    Fault(
        name="who follows a run does not wait until those can be connected who could not be for a while",
        path="orchestrator/api/foreground/run_share.py::RunShare._is_served",
        old="if not servers and answered_at - self._back_at < SILENCE_US:",
        new="if False:",
        tests=(f"{RUN_SHARE}::test_who_comes_back_to_the_ledger_before_who_serves_it_waits_for_that_one",),
    ),
    Fault(
        name="what nobody has all for goes round and round",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_ask_for_as_better",
        old="and each.lacks < each.owner_lacks",
        new="and each.lacks <= each.owner_lacks and each.owner_lacks",
        tests=(f"{BIDS}::test_who_serves_a_shard_best_comes_to_have_it_and_it_rests_there",),
    ),
    Fault(
        name="one that dies as soon as it has come takes down what works",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_ask_for_as_better",
        old="if self.stands_back or at - self._began_at < SETTLED_US:",
        new="if self.stands_back:",
        tests=(f"{BIDS}::test_one_that_comes_and_dies_again_and_again_takes_nothing_down",),
    ),
    Fault(
        name="nobody hears what the owner of a shard lacks",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._due",
        old="owner_lacks=self._elsewhere.of(each.owner, each.shard),",
        new="",
        tests=(f"{FOLDERS}::test_flows_wait_with_all_their_rows_for_the_machine_that_has_their_folder",),
    ),
    Fault(
        name="flows begin where the folder of their pipeline is not",
        path="orchestrator/api/flows/flow_files.py::LocalFiles.is_here",
        old="self.ledger.server is None or await has_folder(pipeline, self.dependencies)",
        new="True",
        tests=(f"{FOLDERS}::test_flows_wait_with_all_their_rows_for_the_machine_that_has_their_folder",),
    ),
    Fault(
        name="paid rows fail where the folder of their step is not",
        path="orchestrator/engine/flows/row_mapper.py::RowMapper._look_at_file",
        old="if not file.is_absolute() and not self.is_folder(str(self.folder)):",
        new="if False:",
        tests=(
            f"{AWAY}::test_rows_for_a_step_wait_for_its_folder",
            f"{AWAY}::test_a_group_of_rows_waits_for_it",
        ),
    ),
    Fault(
        name="paid rows fail whose folder goes away while they are handed over",
        path="orchestrator/engine/flows/row_mapper.py::RowMapper._called",
        old="self._look_at_file()",
        new="pass",
        tests=(f"{AWAY}::test_a_step_that_finds_nothing_there_since_it_is_moved_meanwhile_has_not_failed",),
    ),
    Fault(
        name="a flow waits in silence for the folder of its pipeline",
        path="orchestrator/engine/flows/flow_executor.py::FlowExecutor._look_at_brakes",
        old="why = self._away or next(",
        new="why = next(",
        tests=(f"{AWAY}::test_a_flow_does_not_begin_where_its_folder_is_not",),
    ),
    Fault(
        name="a command runs where its folder is not",
        path="orchestrator/engine/flows/command_stage.py::CommandStage._carry_out",
        old="await self.until_here()",
        new="pass",
        tests=(f"{AWAY}::test_a_command_waits_for_its_folder_and_so_does_who_writes_results",),
    ),
    Fault(
        name="webhooks that come to another machine than the owner's wait for a question",
        path="orchestrator/engine/process/ledger_watch.py::LedgerWatch.serve",
        old="if before is None or commits.notices != before.notices:",
        new="if before is None:",
        tests=(
            "tests/api/hosting/test_webhooks_elsewhere.py::test_one_that_comes_to_another_one_than_the_owner_counts_within_a_second_without_a_question",
        ),
    ),
    Fault(
        name="a run is served by each who comes to serve it at the same moment",
        path="orchestrator/engine/hosting/run_host.py::RunHost.take_on",
        old="async with self._turn:",
        new="async with anyio.Lock():",
        tests=(f"{HOST}::test_a_run_that_several_take_on_at_once_is_served_once",),
    ),
    Fault(
        name="nothing is sent to a member of a pool that was learned of before",
        path="orchestrator/engine/hosting/run_host.py::RunHost._reach_members",
        old="if member not in served:",
        new="if (run.id, member) not in self.endpoints.retries._numbers:",
        tests=(KNOWN_BEFORE,),
    ),
    Fault(
        name="nothing is sent to where rules lead if that was learned of before",
        path="orchestrator/engine/hosting/run_host.py::RunHost.reach_escalation",
        old="if endpoint not in served:",
        new="if (run.id, endpoint) not in self.endpoints.retries._numbers:",
        tests=(KNOWN_BEFORE,),
    ),
    Fault(
        name="an engine ends for an endpoint that its process has taken as a run came to have it",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._join",
        old="if lease.epoch == 0 or (is_idle and lease.left_at is None):",
        new="if lease.epoch == 0:",
        tests=(f"{ENGINES}::test_an_endpoint_that_a_run_comes_to_have_is_served_with_it_at_once",),
    ),
)
