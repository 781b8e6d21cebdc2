"""Which jobs are meant: filters, kinds of failures, what holds them up; and what is done with some of a run's jobs."""

from tests.planted.faults.fault import Fault

FILTERS = "tests/core/filters/test_filter.py"
SELECTION = "tests/conformance/test_selection.py"
CHOSEN = f"{SELECTION}::test_the_ledger_chooses_the_jobs_that_a_filter_means"
MESSAGES = "tests/core/text/test_error_text.py"
DIAGNOSIS = "tests/core/diagnosis/test_run_rules.py"
COMMANDS = "tests/engine/commands/test_command_inbox.py"
CLAIMS = "tests/conformance/test_claims.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="not of an and leaves it one",
        path="orchestrator/core/filters/filter.py::pushed",
        old="return And(turned) if isinstance(tree, And) is not negated else Or(turned)",
        new="return And(turned) if isinstance(tree, And) else Or(turned)",
        tests=(f"{FILTERS}::test_pushing_every_not_down_to_the_terms_changes_nothing", CHOSEN),
    ),
    Fault(
        name="or binds as closely as and",
        path="orchestrator/core/filters/filter_parser.py::_Parser._either",
        old='while self._takes_word("or"):\n    parts.append(self._all())',
        new='while self._takes_word("or"):\n    parts.append(self._one())',
        tests=(f"{FILTERS}::test_terms_are_joined_by_words_and_parentheses",),
    ),
    Fault(
        name="longer ago is later",
        path="orchestrator/core/filters/filter_parser.py::_ended",
        old='return Number("ended", _TURNED[comparison], now',
        new='return Number("ended", comparison, now',
        tests=(f"{FILTERS}::test_a_term_is_a_field_a_comparison_and_a_value",),
    ),
    Fault(
        name="what a job does not have meets no negation",
        path="orchestrator/ledger/reports/job_conditions.py::condition",
        old="return is_not_true(condition(one))",
        new="return ~_condition(one)",
        tests=(CHOSEN,),
    ),
    Fault(
        name="behind a full page the rest of its window is passed over",
        path="orchestrator/ledger/reports/job_queries.py::_Query.page",
        old="rows[-1][0] if len(rows) == most else window[1]",
        new="window[1]",
        tests=(CHOSEN,),
    ),
    Fault(
        name="rows that do not count yet are chosen",
        path="orchestrator/ledger/reports/job_queries.py::_Query._narrowed",
        old="jobs.c.intake_id <= bounds.accepted,",
        new="",
        tests=(f"{SELECTION}::test_rows_of_an_intake_that_was_not_accepted_are_not_chosen",),
    ),
    Fault(
        name="of an error that came of another the other one is told",
        path="orchestrator/core/text/error_text.py::_last_of_traceback",
        old="text[text.rfind(_TRACEBACK) :]",
        new="text[text.find(_TRACEBACK) :]",
        tests=(f"{MESSAGES}::test_a_message_is_told_by_its_type_and_its_sentence",),
    ),
    Fault(
        name="what varies in a long message makes kinds of it",
        path="orchestrator/core/text/error_text.py::error_kind",
        old="return _VARIES.sub(_blank, summary_of(message))[:KIND_MAX]",
        new="return _VARIES.sub(_blank, summary_of(message)[:KIND_MAX])",
        tests=(f"{MESSAGES}::test_a_long_message_is_cut",),
    ),
    Fault(
        name="failures of different classes are one kind",
        path="orchestrator/core/text/error_text.py::error_key",
        old="kind = f\"{trouble}\\n{error_kind(message or '')}\"",
        new='kind = kind_of(message or "")',
        tests=(f"{MESSAGES}::test_failures_of_a_kind_have_the_same_key",),
    ),
    Fault(
        name="causes are told in the order in which they were looked for",
        path="orchestrator/core/diagnosis/rules.py::findings",
        old="return tuple(sorted(found, key=lambda finding: RANK[finding.cause]))",
        new="return tuple(found)",
        tests=(f"{DIAGNOSIS}::test_what_nothing_gets_past_comes_first",),
    ),
    Fault(
        name="a limit binds only in the moment in which all of it is used",
        path="orchestrator/core/diagnosis/limit_rules.py::_sending",
        old="elif sending.used >= BINDING_SHARE * sending.allowance:",
        new="elif sending.used >= sending.allowance:",
        tests=(f"{DIAGNOSIS}::test_the_limit_that_binds_is_found_where_jobs_wait_and_needs_nobody",),
    ),
    Fault(
        name="jobs that are cancelled are not cancelled at the service",
        path="orchestrator/ledger/jobs/cancels.py::Cancels.cancel",
        old="owed = (await connection.execute(",
        new="owed = 0 and (await connection.execute(",
        tests=(f"{COMMANDS}::test_some_jobs_are_cancelled_where_they_are_and_the_run_goes_on",),
    ),
    Fault(
        name="a job whose request is under way escapes its cancelling",
        path="orchestrator/engine/commands/cancel_jobs.py::_cancel_all",
        old="while whole.submitting:",
        new="while False:",
        tests=(f"{COMMANDS}::test_a_job_whose_request_is_under_way_is_cancelled_once_that_is_answered",),
    ),
    Fault(
        name="a retry that is carried out again takes what has failed since",
        path="orchestrator/engine/commands/retry_jobs.py::_reopen",
        old="each.ended_at is not None and each.ended_at <= command.asked_at",
        new="each.ended_at is not None",
        tests=(f"{COMMANDS}::test_a_retry_that_a_crash_cut_off_is_carried_out_once",),
    ),
    Fault(
        name="jobs are tried again without the settings that were given for it",
        path="orchestrator/engine/commands/retry_jobs.py::_reopen",
        old="transitions.reopened(job, at=now, overrides=overrides)",
        new="transitions.reopened(job, at=now, overrides=Overrides())",
        tests=(f"{COMMANDS}::test_some_jobs_are_tried_again_with_settings_of_their_own",),
    ),
    Fault(
        name="what is gone at the service is sent anew twice",
        path="orchestrator/engine/commands/resend.py::resend_outstanding",
        old="and (job.submission or 0) < before",
        new="",
        tests=(
            "tests/engine/commands/test_resend.py::test_what_was_sent_anew_is_left_alone_by_who_carries_it_out_again",
        ),
    ),
    Fault(
        name="the jobs of all runs are sent anew",
        path="orchestrator/engine/commands/resend.py::resend_outstanding",
        old="if job.run == run and",
        new="if",
        tests=(
            "tests/engine/commands/test_resend.py::test_outstanding_jobs_are_sent_anew_and_those_of_another_run_are_not",
        ),
    ),
    Fault(
        name="jobs go in input order whatever their priority",
        path="orchestrator/ledger/runs/input_rows.py::_packed",
        old="priority=row.priority,",
        new="",
        tests=(
            f"{CLAIMS}::test_of_those_who_did_not_wait_for_different_times_a_higher_priority_goes_first",
            "tests/api/python/test_orchestrator.py::test_jobs_of_a_higher_priority_are_sent_before_others_of_their_run",
        ),
    ),
    Fault(
        name="jobs of a lower priority than the highest are never found",
        path="orchestrator/ledger/jobs/claim_queue.py::_Page.add_at",
        old="below = highest",
        new="below = PRIORITY_MIN",
        tests=(f"{CLAIMS}::test_of_those_who_did_not_wait_for_different_times_a_higher_priority_goes_first",),
    ),
    Fault(
        name="who comes later waits for those behind whom the look has got, whatever its priority",
        path="orchestrator/ledger/jobs/claim_queue.py::jobs_claimable",
        old="if behind.newest_job and behind.fresh_priority < PRIORITY_MAX:",
        new="if False:",
        tests=(
            f"{CLAIMS}::test_a_look_goes_on_behind_those_of_every_priority_and_meets_newcomers_who_belong_before_them",
        ),
    ),
    Fault(
        name="a job keeps the priority of its first line",
        path="orchestrator/ledger/runs/intake_writes.py::_PLACES",
        old="(jobs.c.line != intake_known.c.line) | (jobs.c.priority != intake_known.c.priority),",
        new="jobs.c.line != intake_known.c.line,",
        tests=(f"{CLAIMS}::test_what_a_row_says_of_its_priority_now_holds_for_a_job_that_is_there",),
    ),
    Fault(
        name="doctor asks no endpoint to which jobs were sent again",
        path="orchestrator/core/diagnosis/facts.py::RunState.places",
        old="(self.endpoint, self.service_url), *self.elsewhere]",
        new="(self.endpoint, self.service_url)]",
        tests=(
            "tests/api/inspect/test_elsewhere.py::test_a_run_whose_other_endpoint_is_gone_ends_once_its_own_has_nothing_more",
        ),
    ),
)
