"""The rules of the first version: limits, durability, guards, deadlines, tokens."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="the guard of the pacer is dropped",
        path="orchestrator/core/limits/request_slots.py::RequestSlots.free_at",
        old="taken = self.used - self.requests",
        new="taken = -1",
        tests=("tests/core/limits/test_rate_pacer.py::test_no_window_of_the_server_ever_holds_more_than_the_limit",),
    ),
    Fault(
        name="a request is given no place in the concurrency",
        path="orchestrator/core/limits/request_slots.py::RequestSlots.free_at",
        old="excess = self.in_flight + len(self._given_up) + self._reserved_places - self._concurrent",
        new="excess = -1",
        tests=("tests/core/limits/test_rate_pacer.py::test_a_request_given_up_on_keeps_its_place_for_a_window",),
        worlds=("swarm", 45, 10),
    ),
    Fault(
        name="requests leave before the intent is durable",
        path="orchestrator/ledger/transactions/batch_write.py::_write",
        old="results[position] = await entry.block(transaction)",
        new="entry.result = results[position] = await entry.block(transaction)\nentry.end()",
        tests=(
            "tests/engine/sending/test_dispatcher.py::test_the_intent_to_send_is_durable_before_the_request_leaves",
        ),
        worlds=("commits", 8, 32),
    ),
    Fault(
        name="the group commit answers before its commit",
        path="orchestrator/ledger/transactions/batch_write.py::_write",
        old="await _write_rest(transaction.connection, batch, taken)",
        new="await _write_rest(transaction.connection, batch, taken)\nfor entry in batch:\n    entry.end()",
        tests=(
            "tests/ledger/transactions/test_group_commit.py::test_a_file_that_cannot_be_written_fails_everybody_and_heals",
        ),
    ),
    Fault(
        name="the guard of a step forgets the attempt",
        path="orchestrator/ledger/transitions/apply_transitions.py::_APPLY",
        old="jobs.c.attempt == placeholder(3),",
        new="",
        tests=(
            "tests/conformance/test_steps.py::test_a_step_made_for_the_first_attempt_is_stale_once_the_second_began",
        ),
    ),
    Fault(
        name="a stale step among many is taken",
        path="orchestrator/ledger/sqlite/statements.py::SQLiteGuarded._execute",
        old="is_all = self._together(rows, cursor) == len(rows)",
        new="is_all = self._together(rows, cursor) > 0",
        tests=("tests/conformance/test_steps.py::test_a_step_that_is_stale_leaves_those_beside_it_alone",),
    ),
    Fault(
        name="what was done of many steps is done again for those that are not stale",
        path="orchestrator/ledger/sqlite/statements.py::SQLiteGuarded._execute",
        old='cursor.execute("ROLLBACK TO together")',
        new="pass",
        tests=("tests/conformance/test_steps.py::test_a_step_that_is_stale_leaves_those_beside_it_alone",),
    ),
    Fault(
        name="the first result does not win",
        path="orchestrator/ledger/transitions/apply_transitions.py::_APPLY",
        old="jobs.c.state == placeholder(1),",
        new="",
        tests=(
            "tests/ledger/transitions/test_apply_transitions.py::test_the_first_result_wins_whichever_submission_it_is_of",
        ),
    ),
    Fault(
        name="steps leave no events",
        path="orchestrator/ledger/transitions/apply_transitions.py::_apply",
        old="await events_write(connection, done, await outcomes_forget(connection, done))",
        new="await outcomes_forget(connection, done)",
        tests=(
            "tests/ledger/transitions/test_apply_transitions.py::test_events_replayed_through_the_table_give_the_states_and_the_counts",
        ),
        worlds=("clean", 0, 1),
    ),
    Fault(
        name="the margin is dropped from the deadline",
        path="orchestrator/core/jobs/deadlines.py::hard_deadline",
        old="deadline = unfinished_at + retention_us - margin_us(retention_us)",
        new="deadline = unfinished_at + retention_us",
        tests=(
            "tests/core/jobs/test_deadlines.py::test_a_result_is_asked_for_a_sixth_of_the_retention_before_it_can_expire",
        ),
    ),
    Fault(
        name="the retention is ignored",
        path="orchestrator/core/jobs/deadlines.py::hard_deadline",
        old="return min(deadline, ttl_at - min(margin_us(retention_us), max(lifetime_us // 10, WAKING_US)))",
        new="return ttl_at - min(margin_us(retention_us), lifetime_us // 10)",
        tests=("tests/core/jobs/test_deadlines.py::test_the_hard_deadline_lies_before_retention_and_ttl_have_run_out",),
    ),
    Fault(
        name="a 404 always means lost",
        path="orchestrator/core/jobs/deadlines.py::absence",
        old="if now >= (job.unfinished_at or 0) + retention_us:\n    return Absence.EXPIRED",
        new="",
        tests=(
            "tests/engine/collecting/test_collector.py::test_a_404_after_the_retention_is_expired_and_paid_again_once",
        ),
        worlds=("network-40", 0, 1),
    ),
    Fault(
        name="an uncertain submission is made anew at once",
        path="orchestrator/core/jobs/deadlines.py::uncertain_grace_us",
        old="grace = max(120 * SECOND_US, 2 * (p95_us or 0))",
        new="grace = 0",
        tests=(
            "tests/core/jobs/test_deadlines.py::test_with_webhooks_the_grace_is_twice_the_learned_p95_between_two_minutes_and_the_ttl",
        ),
    ),
    Fault(
        name="a submission without an answer is taken for one that had no effect",
        path="orchestrator/core/service/outcomes.py::run_outcome",
        old="return Uncertain(str(result))",
        new="return Deferred(FailureClass.TRANSPORT, str(result))",
        tests=(
            "tests/engine/sending/test_dispatcher.py::test_a_request_that_may_have_had_an_effect_makes_the_job_uncertain",
        ),
        worlds=("mixed-faults", 0, 4),
    ),
    Fault(
        name="what a crash left in submitting is sent again without a word",
        path="orchestrator/engine/maintenance/janitor.py::left_submitting",
        old="if job.by_retry:\n    return transitions.accepted_for_retry(",
        new=(
            "if not job.by_retry:\n    return queued_again(job, now)\nif job.by_retry:\n    return transitions.accepted_for_retry("
        ),
        tests=("tests/engine/maintenance/test_janitor.py::test_what_a_dead_process_left_is_put_in_order",),
        worlds=("commits", 8, 32),
    ),
    Fault(
        name="the token of a webhook is not checked",
        path="orchestrator/core/service/webhook_token.py::submission_of",
        old="if not hmac.compare_digest(token(key, submission), text):\n    return None",
        new="",
        tests=(
            "tests/core/service/test_webhook_token.py::test_a_token_with_one_character_changed_names_nothing",
            "tests/core/service/test_webhook_token.py::test_a_mac_serves_no_other_submission",
        ),
    ),
    Fault(
        name="a webhook is answered before its notice is durable",
        path="orchestrator/engine/collecting/notice_desk.py::NoticeDesk.note",
        old="await self._ledger.writer.record_notice(notice)",
        new="",
        tests=(
            "tests/engine/collecting/test_webhook_inbox.py::test_what_a_dead_process_noted_is_dealt_with_by_the_next_one",
        ),
    ),
    Fault(
        name="those who wait for an operation are not woken",
        path="orchestrator/client/jobs/rate_limiter.py::_Lane.stand_in_line",
        old="del self.line[me]\nself.wake()",
        new="del self.line[me]",
        tests=("tests/client/jobs/test_rate_limiter.py::test_a_raised_limit_lets_the_waiting_go_at_once",),
    ),
    Fault(
        name="the retries starve behind fresh jobs",
        path="orchestrator/ledger/jobs/claim_queue.py::jobs_claimable",
        old="await page.add_at(0, behind",
        new="page.found.clear()\nawait page.add_at(0, behind",
        tests=("tests/conformance/test_claims.py",),
        worlds=("mixed-faults", 0, 2),
    ),
    Fault(
        name="a secret of several lines is hidden where all of them stand together",
        path="orchestrator/core/text/redaction.py::_parts",
        old="yield from value.splitlines()",
        new="",
        tests=(
            "tests/core/text/test_redaction.py::test_a_secret_of_several_lines_is_hidden_in_each_of_them_and_folded",
        ),
    ),
    Fault(
        name="a secret within JSON within JSON is hidden where both escape the same",
        path="orchestrator/core/text/spellings.py::_character",
        old='return f"(?:(?>{_BACKSLASH}{{0,{BACKSLASHES_MAX}}})(?:{plain})|{_BACKSLASHES}(?:{escaped}))"',
        new='return f"(?:(?>{_BACKSLASH}{{0,1}})(?:{plain})|{_BACKSLASHES}(?:{escaped}))"',
        tests=("tests/core/text/test_spellings.py::test_a_secret_is_found_in_any_nesting_of_encodings",),
    ),
    Fault(
        name="a secret in base64 is hidden where it begins a group of three bytes",
        path="orchestrator/core/text/spellings.py::in_base64",
        old="for offset in range(3)",
        new="for offset in range(1)",
        tests=("tests/core/text/test_spellings.py::test_a_secret_is_found_in_base64_of_what_holds_it",),
    ),
    Fault(
        name="a pod whose creation met a server error is created once more",
        path="orchestrator/account/transport/rest_client.py::Rest._request.may_help",
        old='return is_throttled or (method == "GET" and may_pass(error))',
        new="return is_throttled or may_pass(error)",
        tests=("tests/cli/account/test_troubles.py::test_each_trouble_is_one_clear_line_in_each_area",),
    ),
    Fault(
        name="a change by GraphQL is repeated like a question",
        path="orchestrator/account/transport/graphql_client.py::GraphQL.ask",
        old='if query.startswith("mutation"):',
        new='if query.startswith("never"):',
        tests=("tests/cli/account/test_troubles.py::test_each_trouble_is_one_clear_line_in_each_area",),
    ),
)
