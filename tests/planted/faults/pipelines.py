"""Pipelines: when they fire, and rows on their way from stage to stage."""

from tests.planted.faults.fault import Fault

_CALENDAR = "tests/core/pipelines/test_schedule_calendar.py"
_COMMANDS = "tests/engine/flows/test_command_stage.py"
_ELSEWHERE = "tests/engine/flows/test_stages_elsewhere.py"
_GROUPS = "tests/conformance/test_groups.py"
_HANDOVERS = "tests/conformance/test_handovers.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a pipeline keeps the name of an endpoint where the id belongs",
        path="orchestrator/api/runs/endpoint_ids.py::EndpointNames._in_stage",
        old='settings[key] = (",".join(ids),)',
        new="pass",
        tests=(
            "tests/api/flows/test_endpoint_names.py::test_a_pipeline_names_endpoints_and_the_ids_are_recorded_and_shown",
        ),
    ),
    Fault(
        name="a program's run is at the name of its endpoint",
        path="orchestrator/api/python/submission.py::Submission._target",
        old="target_of(self.session, await names.id_of(endpoint) if isinstance(endpoint, str) else endpoint)",
        new="target_of(self.session, endpoint)",
        tests=(
            "tests/api/flows/test_endpoint_names.py::test_a_run_is_submitted_by_the_name_of_its_endpoint_and_keeps_the_id",
        ),
    ),
    Fault(
        name="who begins in the second of two hours gets the fires of the first",
        path="orchestrator/core/pipelines/schedule_calendar.py::_named",
        old="if at_us > last_us:",
        new="if at_us:",
        tests=(f"{_CALENDAR}::test_who_begins_in_the_second_of_two_hours_gets_no_fire_of_the_first",),
    ),
    Fault(
        name="a time that a clock leaves out is fired for as late as it was in the hour",
        path="orchestrator/core/pipelines/schedule_calendar.py::_named",
        old="if _offset(zone, at_us) != first:",
        new="if False:",
        tests=(f"{_CALENDAR}::test_the_end_of_a_gap_fires_for_who_begins_there",),
    ),
    Fault(
        name="jitter carries a fire beyond the next one, and it is lost between two looks",
        path="orchestrator/core/pipelines/schedule_calendar.py::_jittered",
        old="_drawn(key, at, min(schedule.jitter_us, following - at))",
        new="_drawn(key, at, max(schedule.jitter_us, following - at))",
        tests=(f"{_CALENDAR}::test_no_jitter_carries_a_fire_beyond_the_next",),
    ),
    Fault(
        name="a clock that was set back takes a watermark with it, and what was recorded fires again",
        path="orchestrator/ledger/flows/pipelines.py::_SCHEDULE",
        old='"watermark": greatest(schedules.c.watermark, new["watermark"])',
        new='"watermark": new["watermark"]',
        tests=("tests/conformance/test_pipelines.py::test_no_watermark_goes_back_with_the_clock",),
    ),
    Fault(
        name="what a row carries unsent is gone in the next stage",
        path="orchestrator/ledger/flows/handovers.py::_rows_of",
        old="if (inherited := each.of.metadata) is None:",
        new="if (inherited := None) is None:",
        tests=(f"{_HANDOVERS}::test_a_row_carries_on_what_the_one_carries_that_it_was_made_of",),
    ),
    Fault(
        name="a stage that is begun is cleared as what a dead process has left",
        path="orchestrator/api/flows/flow_files.py::LocalFiles.follow",
        old="async with self._turn(name):",
        new="if True:",
        tests=(
            f"{_ELSEWHERE}::test_a_stage_that_is_begun_stays_where_another_process_clears_what_dead_ones_have_left",
        ),
    ),
    Fault(
        name="a row that ends is not owed to the stage that follows",
        path="orchestrator/ledger/transitions/apply_transitions.py::_apply",
        old="are_signalled = await owed_write(connection, done)",
        new="pass",
        tests=(f"{_HANDOVERS}::test_each_row_that_ends_is_owed_with_its_last_step",),
    ),
    Fault(
        name="a row is handed over again that is owed no more",
        path="orchestrator/ledger/flows/handovers.py::Handovers.hand_over",
        old="[each for each in done if each.of.job in taken]",
        new="list(done)",
        tests=(f"{_HANDOVERS}::test_rows_arrive_once_with_their_lineage_and_their_counts",),
    ),
    Fault(
        name="a reopened failure of a step is sent as if it were a job",
        path="orchestrator/ledger/transitions/handover_debts.py::_reopened",
        old="await connection.execute(_SEND_NEVER, batch_of(never_sent))",
        new="pass",
        tests=(f"{_HANDOVERS}::test_a_failed_step_is_a_failed_job_which_is_made_anew_once_it_is_reopened",),
    ),
    Fault(
        name="a group is handed over while rows of it are open",
        path="orchestrator/ledger/schema/handover_tables.py::READY",
        old='READY: Final = "is_due = 1 AND open = 0"',
        new='READY: Final = "is_due = 1"',
        tests=(f"{_GROUPS}::test_what_is_open_is_counted_by_steps_and_hand_overs_until_a_group_is_ready",),
    ),
    Fault(
        name="a group is handed over as it was before a row of it ended otherwise",
        path="orchestrator/ledger/flows/groups.py::Groups.hand_over",
        old="or await within.members(group) != list(members):",
        new=":",
        tests=(f"{_GROUPS}::test_a_group_is_handed_over_once_with_its_lineage_and_as_it_was_put_together",),
    ),
    Fault(
        name="a stage that is carried out anew for what has failed pays for all of it",
        path="orchestrator/ledger/jobs/claims.py::_left_to_send",
        old="if settings.takes_over is not None and not line.by_retry:",
        new="if False:",
        tests=("tests/api/runs/test_rerun.py::test_only_what_has_failed_is_paid_again",),
    ),
    Fault(
        name="the tries of a command begin anew with each process",
        path="orchestrator/engine/flows/command_stage.py::CommandStage._attempts",
        old="1 + group.tries",
        new="1",
        tests=(f"{_COMMANDS}::test_tries_are_counted_across_processes",),
    ),
    Fault(
        name="each process tries a command as often as all of them together may",
        path="orchestrator/engine/flows/command_stage.py::CommandStage._attempts",
        old="self.run.settings.max_attempts, 1 + group.tries",
        new="self.run.settings.max_attempts, 1",
        tests=(f"{_COMMANDS}::test_tries_are_counted_across_processes",),
    ),
    Fault(
        name="a command that is wanted again has the tries that it had",
        path="orchestrator/ledger/flows/groups.py::_TAKE",
        old=".values(is_due=0, failed_job=None, tries=0)",
        new=".values(is_due=0, failed_job=None)",
        tests=(f"{_COMMANDS}::test_tries_are_counted_across_processes",),
    ),
    Fault(
        name="a flow that was held before a command stands still once the rows that had failed have ended",
        path="orchestrator/engine/flows/flow_executor.py::FlowExecutor._carried_out",
        old="self.relay.tell_once_complete(work.run.id, work.nudge)",
        new="pass",
        tests=(f"{_COMMANDS}::test_a_flow_held_before_its_command_goes_on_with_rows_that_were_queued_again",),
    ),
    Fault(
        name="a stage is over though rows came to it while another engine began with it",
        path="orchestrator/engine/flows/stage_executor.py::StageExecutor._is_over",
        old=" or await self._has_unfinished()",
        new="",
        tests=(f"{_ELSEWHERE}::test_a_stage_whose_rows_came_before_they_were_looked_at_is_not_over",),
    ),
)
