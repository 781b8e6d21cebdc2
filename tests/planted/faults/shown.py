"""What people are shown of a run while it goes on and at its end, and of one that is planned."""

from tests.planted.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="two who look at once tell of what was asked twice",
        path="orchestrator/engine/hosting/run_control.py::RunController.follow",
        old="async with self._following:",
        new="if True:",
        tests=(
            "tests/engine/hosting/test_run_control.py::test_what_is_asked_and_taken_back_is_told_once_each_whoever_looks_at_the_same_time",
        ),
    ),
    Fault(
        name="who takes over tells of all runs that ended long ago",
        path="orchestrator/engine/hosting/run_control.py::RunController.follow",
        old=" and run not in ended",
        new="",
        tests=(
            "tests/engine/hosting/test_run_control.py::test_of_one_that_had_ended_before_nothing_is_told_whoever_comes_to_serve_its_endpoint",
        ),
    ),
    Fault(
        name="who leaves a run to others is told that its results expire",
        path="orchestrator/api/foreground/summary.py::ledger_summary",
        old="None if goes_on else await",
        new="await",
        tests=(
            "tests/api/hosting/test_run_share.py::test_who_leaves_one_that_others_serve_is_told_nothing_of_results_that_expire",
        ),
    ),
    Fault(
        name="a dead process is waited for until it ends",
        path="orchestrator/api/admin/process_stop.py::_left",
        old=" and number not in dead]",
        new="]",
        tests=("tests/api/hosting/test_stopping.py::test_one_that_is_dead_has_ended_and_one_that_is_frozen_has_not",),
    ),
    Fault(
        name="between two owners nobody is said to be there",
        path="orchestrator/ledger/ledger.py::Ledger.holder_or_next",
        old="if held_by is None and server is not None:",
        new="if False:",
        tests=("tests/ledger/processes/test_server_site.py::test_where_its_owner_has_died_whoever_stands_by_is_told",),
    ),
    Fault(
        name="in a pipe names are broken at 80 columns",
        path="orchestrator/cli/output/tables.py::drawn",
        old="width=screen_width() if width is None else width,",
        new="width=width,",
        tests=(
            "tests/cli/output/test_printing.py::test_in_a_pipe_no_name_is_broken_and_no_remark_shortened_unless_columns_says_how_wide_it_is",
        ),
    ),
    Fault(
        name="a file that was exported by a filter is to hold every job",
        path="orchestrator/api/outcomes/verify.py::verify",
        old="chosen = filter_of(told.where, now=told.at) if told.where else None",
        new="chosen = None",
        tests=("tests/api/outcomes/test_compare.py::test_an_exported_file_is_known_with_its_run_and_its_filter",),
    ),
    Fault(
        name="a command that is named does not find the ledger that it is about",
        path="orchestrator/cli/framework/runner.py::execute",
        old="streams.speak_of(ledger)",
        new="",
        tests=(
            "tests/cli/framework/test_named_commands.py::test_what_is_said_to_do_is_told_the_ledger_where_it_is_not_the_usual_one",
        ),
    ),
    Fault(
        name="what is counted is told as a time in ISO 8601",
        path="orchestrator/views/json_values.py::is_time",
        old='return name not in _NO_TIMES and name.rpartition("_")[2] in _ENDINGS',
        new='return name.rpartition("_")[2] in _ENDINGS',
        tests=("tests/views/test_json_values.py",),
    ),
    Fault(
        name="times inside of what is printed are told in microseconds only",
        path="orchestrator/views/json_values.py::as_printed",
        old="each = [as_printed(one) for one in value]",
        new="each = list(value)",
        tests=(
            "tests/views/test_json_values.py::test_the_times_of_whatever_is_printed_stand_beside_wherever_they_are",
        ),
    ),
    Fault(
        name="an endpoint without workers shows nothing",
        path="orchestrator/api/foreground/summary.py::snapshot_of",
        old="finding=of_run.finding,",
        new="",
        tests=(
            "tests/api/foreground/test_standstill.py::test_an_endpoint_without_workers_is_told_of_wherever_somebody_looks",
        ),
    ),
    Fault(
        name="status does not know what the process at work has found out",
        path="orchestrator/api/inspect/status.py::_status",
        old="finding=said.finding or next((each.sentence for each in found), None)",
        new="finding=next((each.sentence for each in found), None)",
        tests=(
            "tests/api/foreground/test_standstill.py::test_an_endpoint_without_workers_is_told_of_wherever_somebody_looks",
        ),
    ),
    Fault(
        name="who waits for the place of a process goes on where all were asked to stop",
        path="orchestrator/api/foreground/foreground_run.py::Foreground._follow",
        old="if followed.is_told_to_stop:\n    self._host.stop.set()",
        new="",
        tests=("tests/api/admin/test_process_stop.py::test_who_waits_for_its_place_ends_too",),
    ),
    Fault(
        name="a process ends since the one before it was asked to",
        path="orchestrator/engine/hosting/command_desk.py::CommandDesk.stops_when_asked",
        old="self.register(Action.STOP, self._of_now(stop_asked))",
        new="self.register(Action.STOP, stop_asked)",
        tests=(
            "tests/api/admin/test_process_stop.py::test_what_was_asked_of_a_process_that_was_killed_ends_none_after_it",
        ),
    ),
    Fault(
        name="a worker that has one execution after the other counts twice",
        path="orchestrator/core/planning/observed_times.py::_at_once",
        old="room = {worker: max(1, _most(each, less_us=UNSURE_US)) for worker, each in of_worker.items()}",
        new="room = {worker: len(each) for worker, each in of_worker.items()}",
        tests=("tests/core/planning/test_observed_times.py::test_a_worker_that_has_one_after_the_other_is_one",),
    ),
    Fault(
        name="a follower takes for its own what was done before",
        path="orchestrator/api/foreground/foreground_run.py::Foreground._beside",
        old="await followed.look()",
        new="",
        tests=("tests/api/hosting/test_follower.py::test_what_was_there_before_is_known_when_following_begins",),
    ),
    Fault(
        name="an input that there is no room for is summed up as finished",
        path="orchestrator/api/foreground/foreground_run.py::Foreground._cut_short",
        old="or (self._intake.is_reading and not standing.progress.unfinished):",
        new=":",
        tests=("tests/engine/hosting/test_cut_short.py::test_an_input_that_there_is_no_room_for_had_not_begun",),
    ),
    Fault(
        name="a profile that the shell has left refuses who only looks",
        path="orchestrator/settings/sources.py::choose",
        old="if PROFILE.key in flags:\n    raise",
        new="raise",
        tests=(
            "tests/cli/framework/test_profiles.py::test_who_only_looks_is_not_refused_for_a_profile_that_the_shell_has_and_the_file_has_not",
        ),
    ),
    Fault(
        name="what workers said is shown to those from whom payloads are hidden",
        path="orchestrator/api/pages/runs/payload_policy.py::message_shown",
        old="if shows.are_hidden:\n    found = _ERROR_TYPE.match(summary_of(message))\n"
        '    return "" if found is None else found[0]',
        new="",
        tests=(
            "tests/dashboard/pages/test_run_pages.py::test_where_payloads_are_hidden_no_page_no_json_and_no_file_has_any_of_them",
        ),
    ),
    Fault(
        name="jobs are looked for by inputs that are hidden",
        path="orchestrator/api/pages/runs/jobs_page.py::jobs_page",
        old="check_filter(shows, chosen)",
        new="",
        tests=("tests/dashboard/pages/test_run_pages.py::test_jobs_cannot_be_looked_for_by_what_is_hidden",),
    ),
    Fault(
        name="of jobs that ended at one moment a page of the latest leaves some out",
        path="orchestrator/ledger/reports/ended_jobs.py::_behind",
        old="tuple_(after.ended_at, after.job) > _PLACE",
        new="jobs.c.ended_at < after.ended_at",
        tests=(
            "tests/dashboard/pages/test_run_pages.py::test_jobs_that_ended_at_one_moment_are_on_one_page_each_and_none_is_missing",
        ),
    ),
    Fault(
        name="a run whose breaker lets single jobs go is called sending",
        path="orchestrator/api/inspect/status.py::_status",
        old="stop = hold if hold is not None and (hold.stops or is_braked) else None",
        new="stop = hold if hold is not None and hold.stops else None",
        tests=(
            "tests/api/inspect/test_verdicts.py::test_a_run_whose_breaker_lets_single_jobs_go_is_held_and_ends_at_their_pace",
        ),
    ),
)
