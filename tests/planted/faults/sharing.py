"""Several endpoints that share the jobs of a run: what is moved from one to another, and what each of them takes."""

from tests.planted.faults.fault import Fault

_UNWELL = "tests/engine/pools/test_unwell.py::"
_CANCELS = "tests/engine/maintenance/test_canceller.py::"
_FAST = "tests/engine/pools/test_fast.py::"
_LANES = "tests/engine/pools/test_lanes.py::"
_API = "tests/api/runs/test_member_lanes.py::"
_CHOICE = "tests/core/pools/test_member_choice.py::"
_WORLDS = "tests/simulation/test_pools.py::"
_STAYS = f"{_UNWELL}test_what_begins_before_its_cancelling_is_confirmed_stays"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what is to be moved is sent anew before its cancelling is confirmed",
        path="orchestrator/engine/hosting/pool_watch.py::PoolWatch._leave",
        old="await self._move(waiting)",
        new="from orchestrator.core.jobs.transitions import deferred\n"
        "now, homeward = self._ledger.now(), member.endpoint.homes.homeward\n"
        'await self._ledger.writer.apply([homeward(deferred(each, due_at=now, reason="", at=now)) for each in waiting])\n'
        "await self._move(waiting)",
        tests=(_STAYS,),
    ),
    Fault(
        name="what is to be moved is cancelled though it has begun",
        path="orchestrator/engine/maintenance/canceller.py::Canceller._cancel",
        old="status = await served.collector.ask_for(owed.job, owed.submission)",
        new="status = QUEUED",
        tests=(_STAYS,),
    ),
    Fault(
        name="before a move it is asked for whatever the job was sent as since",
        path="orchestrator/core/polling/poll_plan.py::PollPlan.take",
        old="is_free = entry is not None and entry.job.submission == submission and not entry.is_asked",
        new="is_free = entry is not None and not entry.is_asked",
        tests=(
            "tests/core/polling/test_poll_plan_watched.py::test_one_is_taken_out_of_its_turn_by_its_submission_and_once",
            f"{_CANCELS}test_what_was_to_be_moved_and_is_over_by_a_webhook_is_owed_nothing_more",
        ),
    ),
    Fault(
        name="answers past the queue tell nothing of how fast a member is",
        path="orchestrator/engine/endpoint/estimates.py::EndpointEstimates.answered",
        old="self.pace.observe(now, waited_us=took_us, execution_us=took_us, is_failed=is_failed)",
        new="pass",
        tests=(f"{_FAST}test_past_the_queue_members_get_as_many_at_once_as_they_are_found_to_take",),
    ),
    Fault(
        name="a member where executions fail at once is taken for a fast one",
        path="orchestrator/core/pools/member_pace.py::MemberPace.observe",
        old="if before is None or execution_us is None or execution_us < before:\n    return",
        new="pass",
        tests=(
            "tests/core/pools/test_member_pace.py::test_what_fails_makes_nobody_fast_but_slow_where_it_takes_longer",
        ),
    ),
    Fault(
        name="a member of which nothing is known but failures goes on to get rows",
        path="orchestrator/core/pools/member_choice.py::_Speed.__init__",
        old="self.is_out = not self.is_known and facts.failed_last - failed_least >= FIRST",
        new="self.is_out = False",
        tests=(f"{_CHOICE}test_who_has_only_failed_gets_nothing_unless_all_have",),
    ),
    Fault(
        name="a member is well though executions fail there alone",
        path="orchestrator/engine/pools/pools.py::Pools.on_steps",
        old="member.note_end(run, is_failed=is_failed)",
        new="pass",
        tests=(f"{_UNWELL}test_a_member_where_everything_fails_at_once_gets_few_of_the_rows",),
    ),
    Fault(
        name="a member whose executions failed is well again by one that fails",
        path="orchestrator/core/pools/member_health.py::MemberHealth._fails",
        old="return self._is_failing and is_failed",
        new="return False",
        tests=("tests/core/pools/test_member_health.py::test_where_executions_fail_it_is_tried_until_one_does_not",),
    ),
    Fault(
        name="what is to be due for a member alone is looked for all the time",
        path="orchestrator/engine/pools/member_line.py::MemberLine.may_be_bound",
        old="return self._bound_from is not None and self._bound_from <= self._endpoint.clock.now()",
        new="return self._bound_from is not None",
        tests=(f"{_UNWELL}test_what_is_due_later_for_one_member_alone_is_not_looked_for_all_the_time",),
    ),
    Fault(
        name="what had begun before it was cancelled is sent anew as if it had not",
        path="orchestrator/engine/collecting/result_steps.py::_on_cancelled",
        old="if not record.has_begun:",
        new="if True:",
        tests=(f"{_UNWELL}test_what_begins_as_it_is_cancelled_counts_as_an_execution",),
    ),
    Fault(
        name="a job that is moved stays in the line of the member that is not well",
        path="orchestrator/engine/collecting/result_steps.py::_on_cancelled",
        old="return endpoint.homes.homeward(transitions.deferred(job, due_at=now, reason=ReasonCode.MOVED, at=now))",
        new="return transitions.deferred(job, due_at=now, reason=ReasonCode.MOVED, at=now)",
        tests=(f"{_UNWELL}test_what_is_moved_waits_in_the_line_of_the_pool",),
    ),
    Fault(
        name="a member that is not well goes on taking jobs",
        path="orchestrator/engine/pools/pool_member.py::PoolMember.is_well",
        old="return self.health.state is not MemberState.UNWELL",
        new="return True",
        tests=(f"{_UNWELL}test_nothing_is_left_at_a_member_whose_workers_are_throttled",),
    ),
    Fault(
        name="the members of a pool share the limits of one",
        path="orchestrator/client/jobs/service.py::Service._limiter",
        old="return RateLimiter(self.clock, self._limits, pacing=self._pacing)",
        new="return next((each.api.limiter for each in self._endpoints.values()), None) or RateLimiter(\n"
        "    self.clock, self._limits, pacing=self._pacing\n"
        ")",
        tests=(f"{_FAST}test_each_member_has_limits_of_its_own",),
    ),
    Fault(
        name="what is at a member that died is sent anew, whatever its run wants",
        path="orchestrator/engine/hosting/pool_watch.py::PoolWatch._leave",
        old="if self._settings_of[pool.run].on_uncertain is OnUncertain.RESUBMIT:",
        new="if True:",
        tests=(f"{_UNWELL}test_whoever_holds_what_is_uncertain_waits_for_a_member_that_died",),
    ),
    Fault(
        name="what waits at a member that died waits for it",
        path="orchestrator/engine/hosting/pool_watch.py::PoolWatch._leave",
        old="if member.unheard_us >= DOUBT_US:",
        new="if False:",
        tests=(f"{_UNWELL}test_what_is_at_a_member_that_died_is_uncertain_there_after_a_while",),
    ),
    Fault(
        name="what is uncertain at a member that died is not cancelled there once it is back",
        path="orchestrator/core/jobs/transition_type.py::leaves_in_doubt",
        old="return step.event is Event.RETRIED and step.trouble is FailureClass.UNCERTAIN and before is State.OUTSTANDING",
        new="return False",
        tests=(f"{_UNWELL}test_what_is_at_a_member_that_died_is_uncertain_there_after_a_while",),
    ),
    Fault(
        name="the ledger does not learn which member took a job",
        path="orchestrator/ledger/jobs/claims.py::Claims._claimed_for_run",
        old="endpoint=line.taker",
        new="endpoint=None",
        tests=(f"{_FAST}test_each_member_gets_what_it_can_end_by_the_same_time",),
    ),
    Fault(
        name="what failed at a member is tried again there",
        path="orchestrator/engine/collecting/result_steps.py::on_failed",
        old="other = endpoint.homes.other_than(job.run, endpoint.id)",
        new="other = None",
        tests=(f"{_FAST}test_what_fails_is_executed_again_at_another_member",),
    ),
    Fault(
        name="what was cancelled without an answer is taken for cancelled by somebody else",
        path="orchestrator/engine/collecting/judged_finish.py::JudgedFinish.step",
        old="why = None if is_taken else await self.ledger.jobs.cancels.why(submission=job.submission or 0)",
        new="why = None",
        tests=(
            f"{_CANCELS}test_what_was_moved_is_sent_anew_where_an_earlier_process_has_not_heard_that_it_was_cancelled",
        ),
    ),
    Fault(
        name="what has failed at a member is taken by it again though another one is well",
        path="orchestrator/engine/pools/member_line.py::MemberLine._left_to_others",
        old="return self._endpoint.id if self._pool.has_other(self._endpoint.id) else None",
        new="return None",
        tests=(f"{_FAST}test_what_fails_is_executed_again_at_another_member",),
    ),
    Fault(
        name="what fails all at once waits for one member alone",
        path="orchestrator/engine/pools/run_pool.py::RunPool.other_than",
        old="self._bound[found] += found != self.home",
        new="pass",
        tests=(f"{_FAST}test_what_fails_all_at_once_is_shared_by_those_that_are_well",),
    ),
    Fault(
        name="the lane of the run is used for each member of its pool",
        path="orchestrator/engine/hosting/endpoint_registry.py::EndpointRegistry._serve",
        old="settings_of=SettingsThere(self.settings_of, run.endpoint)",
        new="settings_of=self.settings_of",
        tests=(
            f"{_LANES}test_each_member_is_sent_jobs_by_its_own_lane",
            f"{_WORLDS}test_members_of_different_lanes_do_the_work_of_one_that_loses_its_workers_whoever_is_killed",
        ),
        worlds=("pools", 18, 4),
    ),
    Fault(
        name="rows are checked for the lane of their run, and not for those of its pool's members",
        path="orchestrator/api/python/inputs.py::pump_of",
        old="settings.resumable, settings.vias)",
        new="settings.resumable, (settings.via,))",
        tests=(f"{_API}test_a_row_that_does_not_fit_the_lane_of_every_member_is_refused_before_anything_is_sent",),
    ),
    Fault(
        name="a server without a queue is given all that waits before anything is known of it",
        path="orchestrator/core/pools/member_choice.py::_Speed.__init__",
        old="waiting // (UNKNOWN_SHARE * len(others))",
        new="waiting",
        tests=(f"{_CHOICE}test_a_server_without_a_queue_of_which_nothing_is_known_gets_a_small_part_of_what_waits",),
    ),
    Fault(
        name="a run that is at a URL stays there though members of its pool are at the service",
        path="orchestrator/engine/ports/local_endpoints.py::stays",
        old="home_order(endpoint) <= min(home_order(each.endpoint) for each in members)",
        new="True",
        tests=(f"{_API}test_a_run_that_began_at_a_url_is_not_at_the_service_as_well",),
    ),
    Fault(
        name="rows go by a lane for which nobody has checked them",
        path="orchestrator/api/runs/settings_check.py::check_rows_fit",
        old="if further:",
        new="if False:",
        tests=(f"{_API}test_rows_that_were_not_checked_for_a_lane_are_not_sent_by_it",),
    ),
    Fault(
        name="a member that is to be tried waits until nobody else has anything there",
        path="orchestrator/core/pools/member_choice.py::_Speed.room",
        old="return max(0, 1 - facts.own)",
        new="return max(0, 1 - facts.at_service)",
        tests=(f"{_CHOICE}test_who_is_tried_gets_one_whatever_others_have_there",),
        worlds=("pools", 148, 1),
    ),
    Fault(
        name="what a member had goes by the lane of the run once it is none any more",
        path="orchestrator/settings/lanes/member_lanes.py::MemberLanes.at",
        old="lane = lane_at((*self.members, *self.former_members), endpoint, self.via, self.path)",
        new="lane = lane_at(self.members, endpoint, self.via, self.path)",
        tests=(f"{_LANES}test_what_a_server_had_that_is_no_member_any_more_goes_to_those_that_are",),
        worlds=("pools", 112, 1),
    ),
    Fault(
        name="what is sent anew stays at an endpoint that is no member any more",
        path="orchestrator/engine/hosting/run_registry.py::RunRegistry.learn_pool",
        old="homebound = numbers | {number for number, name in names.items() if name in former}",
        new="homebound = numbers",
        tests=(f"{_LANES}test_what_a_server_had_that_is_no_member_any_more_goes_to_those_that_are",),
    ),
)
