"""What the service and its webhooks say, and whether it is believed."""

from tests.planted.faults.fault import Fault

TRANSPORT = "tests/client/http/test_answer_memory.py::"
GATES = "tests/core/gates/test_gates.py::"
BREAKER = "tests/core/gates/test_circuit_breaker.py::"
ABSENCES = "tests/core/polling/test_missing_jobs.py::"
FORGETFUL = "tests/engine/endpoint/test_estimates.py::"
MISSING = "tests/engine/collecting/test_missing_job_check.py::"
CLOCKS = "tests/engine/maintenance/test_clocks.py::"
REFUSED = "tests/engine/endpoint/test_probe.py::"
TIMES = "tests/engine/collecting/test_impossible_times.py::"
OTHER = "tests/engine/collecting/test_other_records.py::"
GIVEN = "tests/core/service/test_remote_ids.py::"
NO_NEWS = "tests/engine/collecting/test_no_news.py::"
REPEATED = "tests/simulation/test_repeated_ids.py::test_with_its_own_webhook_each_row_has_its_own_output_though_ids_are_given_twice"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what a worker says with half of a character in it is never collected",
        path="orchestrator/core/service/job_record.py::read_record",
        old="record = _record_in(whole, token)",
        new="pass",
        tests=(
            "tests/core/service/test_job_record.py::test_half_of_a_character_costs_no_more_than_itself",
            "tests/api/runs/test_program.py::test_a_failure_is_collected_whose_error_is_no_text_to_a_database_or_to_json",
        ),
    ),
    Fault(
        name="what came of an answer that was cut stays with the error of its connection",
        path="orchestrator/client/http/transport.py::Transport.send",
        old="bare(error)  # its connection keeps it, and it the frames that have what came of the answer",
        new="",
        tests=(TRANSPORT + "test_nothing_stays_of_an_answer_that_is_none",),
    ),
    Fault(
        name="a bomb is unpacked as a whole before it is measured",
        path="orchestrator/client/http/unpacking.py::_Unpacker._step",
        old="decompressor.decompress(packed, PIECE_BYTES)",
        new="decompressor.decompress(packed, 2**30)",
        tests=(
            TRANSPORT + "test_nothing_stays_of_an_answer_that_is_none",
            "tests/client/http/test_unpacking.py::test_of_a_bomb_no_more_is_unpacked_than_is_asked_for",
        ),
    ),
    Fault(
        name="blank lines are read for as long as there are any",
        path="orchestrator/formats/input/lines.py::check_blank",
        old="if size > BLANK_BYTES_MAX:",
        new="if size > 2**60:",
        tests=("tests/formats/input/test_malformed.py::test_a_broken_file_is_told_in_bounded_memory_and_time",),
    ),
    Fault(
        name="an answer that cannot be read ends a job at its deadline",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck.after_no_news",
        old="if now < safe_until(job, self._agreed_us(job)):",
        new="if now < safe_until(job, self._agreed_us(job)) - 10 * SECOND_US:",
        tests=(
            NO_NEWS + "test_a_torn_record_is_asked_for_until_the_retention_has_run_out_and_then_kept_and_tried_again",
            NO_NEWS + "test_the_record_of_a_finished_job_counts_at_any_time_before",
        ),
    ),
    Fault(
        name="a maintenance page is an answer like any other",
        path="orchestrator/engine/endpoint/health.py::EndpointHealth.question",
        old="if self._unread in (None, job):",
        new="if True:",
        tests=(NO_NEWS + "test_a_maintenance_that_answers_with_pages_costs_no_job_anything",),
    ),
    Fault(
        name="jobs are given up while the whole service answers with pages",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck.after_no_news",
        old="if self._endpoint.health.questions.breaker.is_tripped or not await self.is_well(now):",
        new="if False:",
        tests=(NO_NEWS + "test_a_maintenance_that_answers_with_pages_costs_no_job_anything",),
    ),
    Fault(
        name="many submissions at once are risked while none is answered",
        path="orchestrator/core/gates/gates.py::submissions_unanswered",
        old="Open(None if endpoint.by_retry else max(0, 1 - endpoint.in_flight), _UNANSWERED)",
        new="Open(None, _UNANSWERED)",
        tests=(GATES + "test_while_no_submission_is_answered_single_ones_go_at_pauses",),
    ),
    Fault(
        name="a good health makes an endpoint that refuses everything be probed twice a minute for ever",
        path="orchestrator/core/gates/probe_backoff.py::Probing.go_on",
        old='"""It seems to be mended."""\nself.due_at = None',
        new='"""It seems to be mended."""\nself._pause_us, self.due_at = 0, None',
        tests=(
            "tests/core/gates/test_failure_streak_pauses.py::test_pauses_shrink_only_once_something_has_worked",
            "tests/api/inspect/test_mended.py::test_a_good_health_alone_lets_single_ones_go_and_longer_pauses_follow_where_they_are_refused",
        ),
    ),
    Fault(
        name="a question that hangs holds up the next one, whose result may be about to be lost",
        path="orchestrator/core/gates/circuit_breaker.py::QUESTIONS",
        old="is_one_at_a_time=False,",
        new="is_one_at_a_time=True,",
        tests=(
            BREAKER + "test_pauses_grow_to_some_seconds_and_one_answer_ends_them",
            BREAKER + "test_the_next_question_does_not_wait_for_the_answer_to_one_that_hangs",
        ),
    ),
    Fault(
        name="a page in the place of health is good health",
        path="orchestrator/core/service/health.py::is_of_service",
        old="return status < 500 and (not 200 <= status < 300 or health_of(status, body) is not None)",
        new="return status < 500",
        tests=(NO_NEWS + "test_nothing_is_sent_into_a_maintenance_where_even_the_health_is_a_page",),
    ),
    Fault(
        name="the record of another job is believed",
        path="orchestrator/core/service/outcomes.py::_of_record",
        old="if not record.may_be_of(remote_id):",
        new="if False:",
        tests=(OTHER + "test_the_record_of_another_job_is_never_taken_for_the_one_that_was_asked_for",),
        worlds=("swapped", 0, 1),
    ),
    Fault(
        name="an id of odd characters counts as none",
        path="orchestrator/core/service/job_record.py::_record_in",
        old="(remote_id is None and wire.id is not None) or",
        new="",
        tests=(OTHER + "test_an_id_that_is_none_is_not_taken_for_the_right_one",),
    ),
    Fault(
        name="a webhook is believed whatever job it names",
        path="orchestrator/core/service/remote_ids.py::RemoteIds.contradict",
        old="if known_as is None or known_as == remote_id:",
        new="if True:",
        tests=(
            "tests/engine/collecting/test_webhook_inbox.py::test_a_webhook_with_another_id_than_the_answer_gave_is_only_a_hint",
        ),
    ),
    Fault(
        name="an uncertain submission adopts the id of another job",
        path="orchestrator/core/service/remote_ids.py::RemoteIds.contradict",
        old="return owner not in (None, job)",
        new="return False",
        tests=(OTHER + "test_an_uncertain_submission_is_not_adopted_by_the_record_of_another_job",),
    ),
    Fault(
        name="a webhook before the answer to its submission is believed at once",
        path="orchestrator/engine/collecting/webhook_inbox.py::WebhookInbox._go_through",
        old="self._queue.add_early(notice)",
        new="self._sort_out(notice, job, found, endpoint, sorted_out)",
        tests=(
            OTHER + "test_a_webhook_that_comes_before_the_answer_waits_for_it_and_for_the_id_that_it_gives",
            "tests/engine/collecting/test_webhook_inbox.py::test_a_webhook_may_come_before_the_answer_to_its_submission",
        ),
    ),
    Fault(
        name="a job fails by a webhook although another one has brought its result",
        path="orchestrator/engine/collecting/webhook_inbox.py::WebhookInbox._go_through",
        old="for notice in sorted(batch, key=completes, reverse=True):",
        new="for notice in batch:",
        tests=(
            "tests/engine/collecting/test_webhook_inbox.py::test_a_job_that_was_announced_as_failed_and_as_completed_before_its_answer_has_its_result",
            "tests/engine/collecting/test_validation_pool.py::test_a_job_does_not_fail_by_what_contradicts_a_result_that_is_being_judged",
        ),
        worlds=("contrary", 0, 30),
    ),
    Fault(
        name="a job fails by a webhook while its result is being judged",
        path="orchestrator/engine/collecting/webhook_inbox.py::WebhookInbox._is_early",
        old="return not completes(notice) and (notice.submission, COMPLETED) in self._in_validation",
        new="return False",
        tests=(
            "tests/engine/collecting/test_validation_pool.py::test_a_job_does_not_fail_by_what_contradicts_a_result_that_is_being_judged",
        ),
    ),
    Fault(
        name="an id that is given twice is used twice",
        path="orchestrator/engine/lanes/queue_lanes.py::with_own_id",
        old="return Uncertain(SAME_ID, is_repeated_id=True)",
        new="return outcome",
        tests=(OTHER + "test_an_id_that_another_job_has_is_no_usable_id",),
    ),
    Fault(
        name="a webhook is believed whatever webhook URL its record has",
        path="orchestrator/core/service/job_record.py::_record_in",
        old="or _echoes_another(wire.webhook, token),",
        new=",",
        tests=(
            "tests/web/test_webhook_routes.py::test_a_record_that_must_be_of_another_job_is_noted_without_what_it_says",
        ),
    ),
    Fault(
        name="the next process does not know which ids were given",
        path="orchestrator/engine/hosting/endpoint_registry.py::EndpointRegistry._remember",
        old="endpoint.remote_ids.give(remote_id, job)",
        new="pass",
        tests=(OTHER + "test_the_id_of_a_job_that_is_done_is_no_other_ones_in_the_next_process_either",),
    ),
    Fault(
        name="where ids are given twice, the id goes before the token",
        path="orchestrator/core/service/remote_ids.py::RemoteIds.contradict",
        old="if self.are_repeated:\n    return False",
        new="",
        tests=(REPEATED,),
    ),
    Fault(
        name="where ids are given twice, an answer does not wait for the webhook",
        path="orchestrator/engine/endpoint/endpoint.py::Endpoint.doubts_until",
        old="if is_sure or not self.estimates.webhook_health.healthy or not job.is_first_execution:",
        new="if True:",
        tests=(
            "tests/engine/collecting/test_other_records.py::test_where_ids_are_given_twice_an_answer_waits_for_the_webhook_a_while",
        ),
    ),
    Fault(
        name="an id that another job's webhook bore is not in doubt",
        path="orchestrator/core/service/remote_ids.py::RemoteIds.contradict",
        old="self._doubted.add(hash(remote_id))",
        new="",
        tests=(
            GIVEN + "test_a_doubted_id_whose_job_is_told_of_one_that_nobody_has_was_given_twice",
            OTHER + "test_where_ids_are_given_twice_an_answer_waits_for_the_webhook_a_while",
        ),
    ),
    Fault(
        name="a job has the result of the one whose webhook has brought its id",
        path="orchestrator/engine/collecting/finished_jobs.py::FinishedJobs.step",
        old='if self._endpoint.remote_ids.owner(job.remote_id or "") not in (None, job.id):',
        new="if False:",
        tests=(REPEATED,),
    ),
    Fault(
        name="a cancel of another job settles the debt",
        path="orchestrator/core/service/outcomes.py::cancel_outcome",
        old="return AskAgain(FailureClass.SERVER, OF_ANOTHER)",
        new="return None",
        tests=(OTHER + "test_a_cancel_that_is_answered_with_another_job_is_owed_still",),
    ),
    Fault(
        name="a time that is a number is a time",
        path="orchestrator/core/service/job_record.py::sane_ms",
        old="return int(value) if value is not None and 0 <= value <= most_ms else None",
        new="return int(value) if value is not None and 0 <= value < 2**53 else None",
        tests=(TIMES + "test_an_impossible_time_spoils_no_result_and_changes_nothing",),
    ),
    Fault(
        name="a number that nobody can read costs the record",
        path="orchestrator/core/service/job_record.py::known_members",
        old="except ValueError:",
        new="except ZeroDivisionError:",
        tests=(
            TIMES + "test_an_impossible_time_spoils_no_result_and_changes_nothing",
            TIMES + "test_nor_does_it_in_a_webhook",
        ),
    ),
    Fault(
        name="a webhook may tell of any time",
        path="orchestrator/web/webhook_routes.py::Webhooks._notice",
        old="record = plausible(record, within_us=now - submission)",
        new="pass",
        tests=(TIMES + "test_nor_does_it_in_a_webhook",),
    ),
    Fault(
        name="the first refusal of a submission ends the run",
        path="orchestrator/engine/endpoint/health.py::EndpointHealth.submission",
        old="if self.submissions.refusals.are_lasting:",
        new="if True:",
        tests=(REFUSED + "test_a_refusal_that_does_not_last_a_minute_ends_nothing",),
    ),
    Fault(
        name="the first refusal of a question ends the run",
        path="orchestrator/engine/endpoint/health.py::EndpointHealth.question",
        old="if self.questions.refusals.are_lasting:",
        new="if True:",
        tests=(REFUSED + "test_jobs_of_an_earlier_process_show_that_the_key_has_worked",),
    ),
    Fault(
        name="everything is sent on while everything is refused",
        path="orchestrator/core/gates/gates.py::submissions_refused",
        old="Open(max(0, 1 - endpoint.in_flight), _REFUSED)",
        new="Open(None, _REFUSED)",
        tests=(
            GATES + "test_while_submissions_are_refused_single_ones_go_at_pauses",
            REFUSED + "test_after_a_minute_of_refusals_nothing_is_sent_and_what_is_outstanding_is_still_collected",
        ),
    ),
    Fault(
        name="a wrong key is tried for a minute",
        path="orchestrator/engine/lanes/lane.py::Lane._on_outcome",
        old="self._task_pool.launch(partial(endpoint.probe.stop_if_shut, outcome))",
        new="pass",
        tests=(REFUSED + "test_where_nothing_was_ever_accepted_and_the_health_is_refused_too_nobody_waits_a_minute",),
    ),
    Fault(
        name="waits of a clock that was ahead are waited for",
        path="orchestrator/ledger/runs/clock_repair.py::_WAITS",
        old="_WAITS: Final = (_QUEUED,",
        new="_WAITS: Final = (",
        tests=(CLOCKS + "test_what_a_clock_that_was_ahead_has_put_off_is_not_waited_for",),
    ),
    Fault(
        name="uncertain submissions of a clock that was ahead are settled by that clock",
        path="orchestrator/ledger/runs/clock_repair.py::_WAITS",
        old="_WAITS: Final = (_QUEUED, _UNCERTAIN,",
        new="_WAITS: Final = (_QUEUED,",
        tests=(CLOCKS + "test_an_uncertain_submission_of_a_clock_that_was_ahead_is_settled_in_its_time",),
        worlds=("clocks", 1, 1),
    ),
    Fault(
        name="what was unfinished in the future is safe for the retention",
        path="orchestrator/engine/endpoint/outstanding_jobs.py::OutstandingJobs.adopt",
        old="job, is_unsure = sure_of(found, now)",
        new="job, is_unsure = sure_of(found, now)[0], False",
        tests=(CLOCKS + "test_when_a_job_was_last_unfinished_in_the_future_is_unknown_and_it_is_asked_for_at_once",),
    ),
    Fault(
        name="submissions are read with times in the future",
        path="orchestrator/ledger/runs/clock_repair.py::_WAITS",
        old="_UNCERTAIN, _SENT,",
        new="_UNCERTAIN,",
        tests=(CLOCKS + "test_nothing_that_is_read_lies_in_the_future_after_a_clock_that_was_ahead",),
    ),
    Fault(
        name="lost jobs are judged against the questions alone",
        path="orchestrator/core/polling/missing_jobs.py::MissingJobs.are_many",
        old="return len(later) > self.SHARE_MAX * await sent_since(later[0])",
        new="return True",
        tests=(ABSENCES + "test_lost_jobs_that_are_left_at_the_end_are_few_among_those_that_were_sent_with_them",),
    ),
    Fault(
        name="twenty missing jobs stop everything, whatever else is known",
        path="orchestrator/core/polling/missing_jobs.py::MissingJobs.are_many",
        old="if len(found) < self.MANY or len(found) <= self.SHARE_MAX * (sum(self._known) + len(found)):",
        new="if len(found) >= self.MANY:\n    return True\nif True:",
        tests=(MISSING + "test_some_lost_jobs_among_many_do_not_stop_a_run_with_webhooks",),
    ),
    Fault(
        name="an endpoint that forgets everything is never suspect",
        path="orchestrator/engine/collecting/collector.py::Collector._ask",
        old="self._endpoint.health.missing_jobs.missing(job.submission or 0, now)",
        new="pass",
        tests=(MISSING + "test_an_endpoint_that_forgets_everything_is_suspect_at_once_though_it_takes_new_jobs",),
    ),
    Fault(
        name="a lost job waits for a health that there is not",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck._well_after",
        old="return missed_at if missed_at is not None and answered_at > missed_at else None",
        new="return None",
        tests=(MISSING + "test_where_there_is_no_health_to_be_asked_for_other_jobs_show_that_the_endpoint_is_well",),
    ),
    Fault(
        name="webhooks show that an endpoint answers questions",
        path="orchestrator/engine/endpoint/endpoint.py::Endpoint.on_webhook",
        old="self.health.missing_jobs.known_by_webhook(self.clock.now())",
        new="self.health.missing_jobs.answered(self.clock.now(), self.clock.now())",
        tests=(MISSING + "test_webhooks_of_other_jobs_do_not_show_that_an_endpoint_answers_questions",),
    ),
    Fault(
        name="a job that the service does not retry is paid for again unasked",
        path="orchestrator/engine/lanes/response_steps.py::on_response",
        old="return transitions.refused_for_retry(job, at=now)",
        new='return rejected(job, "refused", now=now)',
        tests=(
            (
                "tests/engine/sending/test_dispatcher.py::"
                "test_before_a_retry_that_is_refused_is_paid_for_again_the_status_is_asked_for"
            ),
        ),
        worlds=("contrary", 1, 1),
    ),
    Fault(
        name="results are counted on for as long as agreed, whatever the service does",
        path="orchestrator/engine/endpoint/estimates.py::EndpointEstimates.retention_us",
        old="return self.retention.retention_us(self.agreed_us(run))",
        new="return self.agreed_us(run)",
        tests=(
            FORGETFUL + "test_after_a_few_results_that_were_gone_too_early_no_other_is_left_there_for_so_long",
            FORGETFUL
            + "test_a_process_that_finds_results_gone_after_a_pause_calls_less_time_safe_and_sends_less_ahead",
        ),
    ),
    Fault(
        name="what a service forgot too early is called our lateness",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck.after_404",
        old="match absence(job, now=now, retention_us=self._agreed_us(job)):",
        new="match absence(job, now=now, retention_us=self._retention_us(job)):",
        tests=(FORGETFUL + "test_after_a_few_results_that_were_gone_too_early_no_other_is_left_there_for_so_long",),
    ),
    Fault(
        name="jobs that are out already keep their deadlines",
        path="orchestrator/engine/collecting/collector.py::Collector._follow_endpoint",
        old="self._plan.deadlines.measure_all()",
        new="pass",
        tests=(FORGETFUL + "test_after_a_few_results_that_were_gone_too_early_no_other_is_left_there_for_so_long",),
    ),
    Fault(
        name="results that are known to go make the endpoint suspect",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck.is_known_to_go",
        old="return safe_until(job, believed_us) <= now < safe_until(job, self._agreed_us(job))",
        new="return False",
        tests=(FORGETFUL + "test_after_a_few_results_that_were_gone_too_early_no_other_is_left_there_for_so_long",),
    ),
    Fault(
        name="jobs that are lost by chance are taken for results that are forgotten too early",
        path="orchestrator/core/polling/result_retention.py::RetentionEstimate.gone",
        old="if later.count(False) < self.SHARE_MIN * len(later):",
        new="if False:",
        tests=(
            "tests/core/polling/test_result_retention.py::test_jobs_that_are_missing_whenever_they_are_asked_for_say_nothing",
            FORGETFUL + "test_jobs_that_are_lost_by_chance_change_nothing",
        ),
    ),
    Fault(
        name="of results that were gone when the endpoint was suspect nothing is learned",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck.after_404",
        old="case Absence.EXPIRED:\n    self._forgotten(entry)",
        new="case Absence.EXPIRED:",
        tests=(
            FORGETFUL
            + "test_where_so_many_are_gone_that_the_endpoint_is_suspect_it_is_believed_less_once_they_have_expired",
        ),
    ),
    Fault(
        name="while it is found out whether many are missing, what was known before counts",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck._are_many_missing",
        old="if now >= self._judged_at + SECOND_US:",
        new="if now >= self._judged_at + SECOND_US:\n    self._judged_at = now",
        tests=(
            FORGETFUL
            + "test_where_so_many_are_gone_that_the_endpoint_is_suspect_it_is_believed_less_once_they_have_expired",
        ),
    ),
    Fault(
        name="a job that was never executed tells of results that are forgotten",
        path="orchestrator/engine/collecting/missing_job_check.py::MissingJobCheck._forgotten",
        old="is_known = (job.unfinished_at or 0) > (job.sent_at or 0) or not self._plan.times.webhooks",
        new="is_known = True",
        tests=(FORGETFUL + "test_where_webhooks_arrive_a_job_that_was_never_seen_was_never_executed_more_likely",),
    ),
)
