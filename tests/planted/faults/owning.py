"""Which of several processes owns a ledger on a server, and what one that does not any more must not do."""

from tests.planted.faults.fault import Fault

TAKE_OVERS = "tests/limits/test_take_overs.py::test_at_take_overs_no_request_is_refused_whatever_the_way_of_counting"
ALLOWANCE = "tests/client/jobs/test_allowance.py"
DEPOSED = "tests/engine/hosting/test_deposed.py"
HANDOVER = "tests/core/ownership/test_handover.py"
LEASE = "tests/core/ownership/test_lease.py"
BIDS = "tests/core/ownership/test_shard_bids.py"
SHARED = "tests/api/hosting/test_shared_ledger.py"
RUN_SHARE = "tests/api/hosting/test_run_share.py"
REACH = "tests/core/ownership/test_service_reach.py"
LEASES = "tests/ledger/processes/test_leases.py"
PROCESSES = "tests/ledger/processes/test_processes.py"
TENURE = "tests/ledger/processes/test_tenure.py"
SHARD_OWNER = "tests/ledger/processes/test_shard_owner.py"
LEAVING = "tests/client/http/test_leave_to_send.py"
CLOCKS = "tests/ledger/processes/test_this_process.py"
OWNED = "tests/engine/hosting/test_owned.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a process writes without proving that the ledger is its own",
        path="orchestrator/ledger/sites/server_site.py::ServerSite.own",
        old="self.database.fence = owner.fence",
        new="pass",
        tests=("tests/ledger/processes/test_server_site.py::test_who_lost_it_writes_nothing_more_and_knows_why",),
    ),
    Fault(
        name="a lease that has ended is revived by a beat",
        path="orchestrator/core/ownership/lease.py::Lease.beaten",
        old="self._until = max(self._until, begun_at + TRUST_US)",
        new="self._until, self._has_ended = max(self._until, begun_at + TRUST_US), False",
        tests=(f"{LEASE}::test_one_that_has_ended_is_not_revived_by_any_beat",),
    ),
    Fault(
        name="an owner trusts itself from the answer to its beat on",
        path="orchestrator/ledger/processes/membership.py::Membership.beat",
        old="self._lease.beaten(begun_at)",
        new="self._lease.beaten(self._now())",
        tests=(f"{TENURE}::test_a_beat_whose_answer_came_late_counts_from_its_beginning",),
    ),
    Fault(
        name="whoever stands by waits no longer than an owner trusts itself",
        path="orchestrator/core/ownership/beat_watch.py::BeatWatch.silent",
        old="at - since >= SILENCE_US",
        new="at - since >= SILENCE_US // 2",
        tests=(f"{LEASE}::test_whoever_takes_over_does_so_after_its_predecessor_has_ceased",),
    ),
    Fault(
        name="whoever looks counts the time in which the ledger was away",
        path="orchestrator/ledger/processes/lookout.py::Lookout._seen",
        old="self._watch = BeatWatch()",
        new="pass",
        tests=(f"{SHARD_OWNER}::test_the_time_in_which_the_ledger_was_away_does_not_count_against_its_owner",),
    ),
    Fault(
        name="a successor leaves its predecessor's connections alive",
        path="orchestrator/ledger/processes/processes.py::Processes.declare_dead",
        old="await self._driver.execute(_END, silent.mark, ENDED_MS_MAX)",
        new="pass",
        tests=(
            f"{PROCESSES}::test_a_transaction_that_stands_still_is_ended_by_who_declares_its_process_dead_and_leaves_nothing",
        ),
    ),
    Fault(
        name="a process is declared dead that has beaten meanwhile",
        path="orchestrator/ledger/processes/processes.py::_LOCK_IF_SILENT",
        old="AND beat = $3 FOR UPDATE",
        new="AND beat >= $3 FOR UPDATE",
        tests=(f"{PROCESSES}::test_a_beat_is_seen_and_whoever_saw_the_one_before_cannot_declare_it_dead",),
    ),
    Fault(
        name="a process that was declared dead is renewed by its name",
        path="orchestrator/ledger/processes/processes.py::_BEAT",
        old="WHERE id = $1 AND mark = $2",
        new="WHERE $1::bigint > 0 AND mark = $2",
        tests=(f"{PROCESSES}::test_who_was_declared_dead_can_prove_nothing_beat_no_more_and_take_nothing",),
    ),
    Fault(
        name="what a process was proves something once it has joined again",
        path="orchestrator/ledger/processes/processes.py::_FENCE",
        old="WHERE id = {id:d} AND mark = '{mark}'",
        new="WHERE {id:d} > 0 AND mark = '{mark}'",
        tests=(f"{PROCESSES}::test_who_was_declared_dead_can_prove_nothing_beat_no_more_and_take_nothing",),
    ),
    Fault(
        name="a shard is taken that somebody has",
        path="orchestrator/ledger/processes/leases.py::_TAKE",
        old="AND owner IS NULL AND",
        new="AND",
        tests=(f"{LEASES}::test_of_many_who_take_at_once_one_gets_all_of_it",),
    ),
    Fault(
        name="a shard that a process asked for is taken by another one",
        path="orchestrator/ledger/processes/leases.py::_TAKE",
        old="AND coalesce(wanted_by, $1) = $1",
        new="AND $1::bigint > 0",
        tests=(f"{LEASES}::test_one_that_is_wanted_goes_to_who_asked_first_and_to_anybody_once_that_has_ended",),
    ),
    Fault(
        name="a new shard is taken though another process has the whole ledger",
        path="orchestrator/ledger/processes/leases.py::_TAKE",
        old="AND NOT EXISTS (SELECT FROM alone)",
        new="",
        tests=(f"{LEASES}::test_while_one_has_the_whole_ledger_nobody_else_takes_what_is_new",),
    ),
    Fault(
        name="two shards become one though another process has one of them",
        path="orchestrator/ledger/processes/leases.py::Leases.merge",
        old="if len(mine) == len(pair):",
        new="if mine:",
        tests=(f"{LEASES}::test_shards_that_a_run_uses_together_are_told_and_become_one_once_one_process_has_both",),
    ),
    Fault(
        name="a shard is let go of by a word that is late",
        path="orchestrator/ledger/processes/leases.py::_GIVE",
        old="AND epoch = $4",
        new="AND epoch >= $4",
        tests=(f"{LEASES}::test_one_that_is_let_go_of_is_anybodys_under_another_epoch_and_a_late_word_takes_nothing",),
    ),
    Fault(
        name="a request without a body is not asked about before it leaves",
        path="orchestrator/client/http/backends.py::_asking",
        old="refuse_to_leave(may_leave)",
        new="pass",
        tests=(
            f"{LEAVING}::test_what_may_leave_leaves_and_what_may_not_does_not_on_a_new_connection_and_on_a_used_one",
        ),
    ),
    Fault(
        name="the rest of a large body leaves all the same",
        path="orchestrator/client/http/bodies.py::Upload._write",
        old="leave_marked(self._leaving if is_last else None, self._may_leave)",
        new="leave_marked(self._leaving if is_last else None, None)",
        tests=(f"{LEAVING}::test_of_a_large_body_the_rest_does_not_leave",),
    ),
    Fault(
        name="what nobody gets an answer from goes round and round",
        path="orchestrator/core/ownership/service_reach.py::ServiceReach.to_hand_over",
        old="fresh = lost - self._handed_over.keys() if others else set[int]()",
        new="fresh = lost if others else set[int]()",
        tests=(f"{REACH}::test_where_nobody_gets_an_answer_a_shard_comes_to_each_once_and_stays_with_the_last",),
    ),
    Fault(
        name="a process takes what it lacks something to serve as if it could",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_take",
        old=" if _can_be_served(each))",
        new=")",
        tests=(
            f"{BIDS}::test_who_cannot_serve_a_shard_leaves_it_to_the_others_and_has_it_once_these_had_their_chance",
        ),
    ),
    Fault(
        name="whoever hands over for want of answers takes it back",
        path="orchestrator/core/ownership/shard_bids.py::ShardBids.to_take",
        old="taken |= set() if self.stands_back else set(for_us[turn :: len(others) + 1])",
        new="taken |= set(for_us[turn :: len(others) + 1])",
        tests=(f"{REACH}::test_who_stands_back_takes_what_nobody_else_has_taken_and_asks_for_nothing",),
    ),
    Fault(
        name="a process that could not send takes that for the service's silence",
        path="orchestrator/core/ownership/service_reach.py::ServiceReach.to_hand_over",
        old="min(reach.unreached_us, tried_us) >= UNREACHED_US",
        new="reach.unreached_us >= UNREACHED_US",
        tests=(f"{REACH}::test_while_it_could_not_look_at_the_ledger_it_could_not_send_either",),
    ),
    Fault(
        name="what an engine sends is not asked about",
        path="orchestrator/engine/ports/service_registry.py::ServiceRegistry._real",
        old="service.ask_first(self._ownership.may_leave)",
        new="pass",
        tests=(
            f"{OWNED}::test_nothing_leaves_a_process_that_may_have_lost_its_place",
            "tests/simulation/engines/test_engines.py::test_each_job_has_its_result_and_one_sends_after_the_other",
        ),
    ),
    Fault(
        name="whether another process is silent is told by the wall clock",
        path="orchestrator/ledger/processes/this_process.py::ThisProcess.__init__",
        old="self.elapsed = elapsed",
        new="self.elapsed = wary_clock().now",
        tests=(f"{CLOCKS}::test_a_wall_clock_that_is_set_takes_nothing_from_a_process_that_beats",),
    ),
    Fault(
        name="what a deposed process hears is lost",
        path="orchestrator/ledger/transactions/batch_write.py::leave_to_successor",
        old="heard = [late_notice(step) for entry in batch for step in entry.steps]",
        new="heard: list[Notice | None] = []",
        tests=(f"{DEPOSED}::test_a_successor_takes_what_its_predecessor_hears_and_pays_nothing_twice",),
    ),
    Fault(
        name="what was noted at a deposed process is refused with the rest",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._drain",
        old="await leave_to_successor(self._database, batch, self.patience, error)",
        new="await self._replay(batch, error)",
        tests=(
            "tests/ledger/transactions/test_deposed_writes.py::test_steps_become_notices_webhooks_stay_what_they_are_and_nothing_else_is_written",
        ),
    ),
    Fault(
        name="the first thing that a deposed process cannot write cuts off what is on its way",
        path="orchestrator/engine/runtime/task_pool.py::TaskPool.fail",
        old="if not self._is_closed and not isinstance(leading(error), DeposedError):",
        new="if not self._is_closed:",
        tests=(f"{DEPOSED}::test_of_a_deposed_one_nothing_is_written_but_what_it_heard",),
    ),
    Fault(
        name="nothing of the limits is reserved at a take-over",
        path="orchestrator/client/jobs/allowance.py::follow_predecessor",
        old="for operation in Operation if is_successor else ():",
        new="for operation in ():",
        tests=(
            f"{OWNED}::test_at_a_take_over_what_may_still_arrive_keeps_its_part_of_the_limits",
            TAKE_OVERS,
        ),
    ),
    Fault(
        name="who goes on in the place of one that let go goes evenly for a while",
        path="orchestrator/engine/hosting/endpoint_registry.py::EndpointRegistry._remember",
        old="left=left,",
        new="left=None,",
        tests=(f"{OWNED}::test_where_the_one_before_let_go_its_successor_goes_on_as_it_stood",),
    ),
    Fault(
        name="what is left to a successor is told to whoever comes later as well",
        path="orchestrator/ledger/processes/leases.py::_TAKE",
        old="taken_at = {now}, handover = NULL",
        new="taken_at = {now}",
        tests=(
            "tests/ledger/processes/test_shard_owner.py::test_how_one_was_left_that_an_owner_between_had_who_is_dead_is_news_of_nobody",
        ),
    ),
    Fault(
        name="beside what is reserved requests leave at the full rate and then stand still",
        path="orchestrator/core/limits/rate_pacer.py::Pacer._set_share",
        old="requests = max(1, self._limit.requests - self._slots.reserved)",
        new="requests = self._limit.requests",
        tests=("tests/core/limits/test_reserved_slots.py::test_beside_what_arrives_late_the_rest_goes_evenly",),
    ),
    Fault(
        name="places are kept at a take-over that no request can take",
        path="orchestrator/client/jobs/allowance.py::follow_predecessor",
        old="places=number if operation in SYNC_OPERATIONS else 0",
        new="places=number",
        tests=(f"{ALLOWANCE}::test_one_that_was_cut_off_leaves_its_successor_half_of_the_places",),
    ),
    Fault(
        name="who waits for a ledger that went elsewhere is told to upgrade the program",
        path="orchestrator/ledger/processes/shard_owner.py::ShardOwner.take",
        old="if (found := await asked.leases.schema()) == RETIRED:",
        new="if (found := await asked.leases.schema()) == '':",
        tests=(f"{SHARED}::test_one_that_comes_while_its_ledger_is_copied_elsewhere_ends_and_says_where_that_goes_on",),
    ),
    Fault(
        name="who waits for a ledger that went elsewhere waits for ever",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._step",
        old="except (LedgerVersionError, LedgerRetiredError):",
        new="except LedgerVersionError:",
        tests=(f"{SHARED}::test_one_that_comes_while_its_ledger_is_copied_elsewhere_ends_and_says_where_that_goes_on",),
    ),
    Fault(
        name="an older program takes shards of a ledger that a newer one has brought to another schema",
        path="orchestrator/ledger/processes/leases.py::_TAKE",
        old=" AND {is_known} ORDER BY",
        new=" ORDER BY",
        tests=(
            "tests/ledger/processes/test_other_versions.py::test_one_that_is_older_than_the_tables_takes_nothing_and_asks_for_nothing",
        ),
    ),
    Fault(
        name="a run in the foreground sends itself, though somebody serves whatever there is",
        path="orchestrator/api/foreground/run_share.py::RunShare.begin_where_nobody_serves",
        old="if self._is_begun or self._host.stop.is_set() or await self._is_served():",
        new="if self._is_begun or self._host.stop.is_set():",
        tests=(f"{RUN_SHARE}::test_where_somebody_serves_whatever_there_is_nothing_is_sent_from_here",),
    ),
    Fault(
        name="a process that is there for a run of its own has what others need as its own",
        path="orchestrator/api/hosting/shard_ability.py::ShardAbility._is_of_others",
        old="self.only is not None and self.only not in self._runs.get(shard, ())",
        new="False",
        tests=(
            f"{RUN_SHARE}::test_who_comes_to_serve_has_all_but_the_shard_of_the_run_and_that_too_once_it_is_stopped",
        ),
    ),
    Fault(
        name="nobody looks after what a process did last that was declared dead, once nothing more is to be done there",
        path="orchestrator/api/hosting/shared_ledger.py::SharedLedger._due",
        old="is_needed=each.shard in needed or self._is_left(each),",
        new="is_needed=each.shard in needed,",
        tests=(f"{SHARED}::test_what_the_dead_have_left_is_looked_after_once_though_nothing_more_is_to_be_done_there",),
    ),
    Fault(
        name="who takes the whole ledger does not look again for who was taking a part of it",
        path="orchestrator/ledger/processes/tenure.py::Tenure.take_all",
        old="seen = await self.look()  # whoever was taking some of it before we had the keeper's may have them only now",
        new="pass",
        tests=(f"{LEASES}::test_one_that_takes_the_whole_ledger_as_another_one_takes_a_part_has_nothing",),
    ),
    Fault(
        name="a process joins only where there is room at once, though some may be dead",
        path="orchestrator/ledger/processes/shard_owner.py::shard_owner_of",
        old="until = here.elapsed() + 2 * SILENCE_US",
        new="until = here.elapsed() - 1",
        tests=(
            f"{SHARD_OWNER}::test_where_there_is_no_room_whoever_comes_waits_for_who_is_dead",
            f"{SHARED}::test_where_there_is_no_room_whoever_comes_serves_once_the_dead_are_known_or_is_stopped",
        ),
    ),
    Fault(
        name="how a shard was left when it was given is gone on by when it comes back",
        path="orchestrator/ledger/processes/shard_owner.py::ShardOwner.give",
        old="self.endpoints_left.forget(gone)",
        new="pass",
        tests=(f"{SHARD_OWNER}::test_what_is_left_is_told_of_no_shard_whose_owner_between_has_left_nothing",),
    ),
    Fault(
        name="what a process did not hear that it had given is told of as if it had it still",
        path="orchestrator/core/ownership/handover.py::EndpointsLeft.find",
        old="self._left.pop(endpoint, None)",
        new="pass",
        tests=(f"{HANDOVER}::test_whoever_did_not_hear_that_it_gave_one_goes_on_by_what_comes_with_it",),
    ),
    Fault(
        name="what was left before an owner that died is believed of an endpoint once its shard is taken from that one",
        path="orchestrator/ledger/processes/shard_owner.py::ShardOwner.take",
        old="self.endpoints_left.find(each.endpoints, each.handover)",
        new="self.endpoints_left.find(each.endpoints if each.handover else (), each.handover)",
        tests=(f"{SHARD_OWNER}::test_how_one_was_left_that_an_owner_between_had_who_is_dead_is_news_of_nobody",),
    ),
    Fault(
        name="a new ledger whose first shard another one is making is one without shards",
        path="orchestrator/ledger/processes/leases.py::Leases.sighting",
        old="if leases := _leases.decode(asked):  # else another one made the first, and is seen from now on",
        new="if (leases := _leases.decode(asked)) is not None:",
        tests=(f"{LEASES}::test_whoever_looks_first_at_a_new_ledger_waits_for_another_one_that_does",),
    ),
    Fault(
        name="who was not told how an endpoint was left goes on as it was left long ago",
        path="orchestrator/ledger/processes/shard_owner.py::ShardOwner.look",
        old="self.endpoints_left.forget_all()",
        new="pass",
        tests=(f"{SHARD_OWNER}::test_who_was_not_told_how_one_was_left_goes_by_nothing_that_it_knew_before",),
    ),
    Fault(
        name="one that cannot be declared dead keeps all others from it",
        path="orchestrator/ledger/processes/lookout.py::Lookout._declare_dead",
        old='if getattr(error, "sqlstate", None) != LOCK_REFUSED:',
        new="if True:",
        tests=(f"{SHARD_OWNER}::test_one_whose_row_is_held_keeps_nobody_from_what_another_dead_one_had",),
    ),
    Fault(
        name="one that freezes as it declares another dead holds that one for a minute",
        path="orchestrator/ledger/processes/owners_line.py",
        old='    "idle_in_transaction_session_timeout": "2000",\n',
        new="",
        tests=(f"{SHARD_OWNER}::test_one_that_freezes_while_it_declares_another_dead_holds_up_nobody_for_long",),
    ),
    Fault(
        name="for whom one cannot be declared dead all live again",
        path="orchestrator/ledger/processes/lookout.py::Lookout._declare_dead",
        old='if getattr(error, "sqlstate", None) != LOCK_REFUSED:',
        new='self._watch = BeatWatch()\nif getattr(error, "sqlstate", None) != LOCK_REFUSED:',
        tests=(f"{SHARD_OWNER}::test_one_that_cannot_be_declared_dead_at_once_is_so_at_the_next_look",),
    ),
    Fault(
        name="an endpoint with a small limit stands still for what may still arrive of an owner before",
        path="orchestrator/client/jobs/allowance.py::follow_predecessor",
        old="max(0, limit.requests - 1)",
        new="limit.requests",
        tests=(
            f"{ALLOWANCE}::test_where_a_limit_is_smaller_than_what_may_still_arrive_its_successor_sends_one_at_a_time",
        ),
    ),
)
