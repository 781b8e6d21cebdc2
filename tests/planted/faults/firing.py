"""Firing: what a look records, which flows are skipped and begin, and pipelines that programs write."""

from tests.planted.faults.fault import Fault

_FIRING = "tests/core/pipelines/test_due_fires.py::"
_OVERLAP = "tests/core/pipelines/test_overlap_policy.py::"
_PIPELINES = "tests/conformance/test_pipelines.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a flow that somebody has asked for is late from its fire",
        path="orchestrator/core/pipelines/flow_lifecycle.py::late_from",
        old="asked_at = recorded_at if kind is not FlowKind.SCHEDULED else fire_at",
        new="asked_at = fire_at",
        tests=(
            "tests/api/inspect/test_flows.py::test_who_asks_for_past_fires_or_goes_on_with_an_old_flow_is_not_told_at_once_that_they_are_late",
        ),
    ),
    Fault(
        name="a backfill is late while it stands in line",
        path="orchestrator/core/pipelines/flow_lifecycle.py::late_from",
        old="return None",
        new="return recorded_at",
        tests=(
            "tests/core/pipelines/test_flow_lifecycle.py::test_a_flow_is_late_from_its_fire_from_when_it_was_asked_for_or_from_its_turn_in_a_backfill",
        ),
    ),
    Fault(
        name="each flow of a backfill tells that it is late",
        path="orchestrator/ledger/flows/flows.py::Flows.tell_late",
        old="rowcount > 0 and told is None",
        new="rowcount > 0",
        tests=(_PIPELINES + "test_that_flows_of_one_backfill_are_late_is_told_once_and_of_each_backfill",),
    ),
    Fault(
        name="a fire that is overdue for exactly as long as it may be is missed",
        path="orchestrator/core/pipelines/due_fires.py::look",
        old="bygone = now - schedule.catch_up_us - 1",
        new="bygone = now - schedule.catch_up_us",
        tests=(_FIRING + "test_what_is_overdue_for_longer_than_catch_up_is_missed_to_the_microsecond",),
    ),
    Fault(
        name="what one look does not take is left out by the next",
        path="orchestrator/core/pipelines/due_fires.py::look",
        old="until = max(now, after) if is_all else fires[most - 1].at_us",
        new="until = max(now, after)",
        tests=(_FIRING + "test_a_look_takes_no_more_than_it_may_and_the_next_one_goes_on",),
    ),
    Fault(
        name="two processes that look at once record the same fires",
        path="orchestrator/ledger/flows/fires.py::Fires.record",
        old="right = [each for each in found if as_now.get(each.pipeline) == (each.definition, each.watermark)]",
        new="right = [each for each in found if as_now]",
        tests=(_PIPELINES + "test_a_look_is_recorded_once_whoever_looks",),
    ),
    Fault(
        name="each look finds a gap of its own where they are one stretch",
        path="orchestrator/ledger/flows/fires.py::gap_add",
        old="gaps.c.until_at == gap.after_us)",
        new="gaps.c.until_at == gap.until_us)",
        tests=(_PIPELINES + "test_gaps_that_touch_are_one_stretch",),
    ),
    Fault(
        name="a queue that is full takes as many again",
        path="orchestrator/core/pipelines/overlap_policy.py::rule",
        old="room = max(0, WAITING_MAX - len(waiting))",
        new="room = WAITING_MAX",
        tests=(_OVERLAP + "test_of_a_full_queue_the_newest_are_skipped",),
    ),
    Fault(
        name="a backfill begins before those of the schedule",
        path="orchestrator/core/pipelines/overlap_policy.py::startable",
        old="if len(begin) < len(due):\n    return begin",
        new="",
        tests=(_OVERLAP + "test_backfills_stand_behind_and_have_places_of_their_own",),
    ),
    Fault(
        name="a flow that is replaced does not count while it is being cancelled, and too many run",
        path="orchestrator/core/pipelines/overlap_policy.py::_begun",
        old="return sum(flow.state in BEGUN for flow in flows)",
        new="return sum(flow.state in BEGUN and not flow.is_cancelled for flow in flows)",
        tests=(_OVERLAP + "test_one_that_is_held_or_is_being_cancelled_has_its_place_until_it_has_ended",),
    ),
    Fault(
        name="the same trigger once more is another flow",
        path="orchestrator/ledger/flows/flows.py::Flows.add",
        old="if made_up.again or fire_at not in known",
        new="",
        tests=(_PIPELINES + "test_the_same_time_is_the_same_flow_unless_it_is_wanted_again",),
    ),
    Fault(
        name="a job that is to be cancelled at its next checkpoint waits until somebody looks",
        path="orchestrator/engine/collecting/segment_tracker.py::SegmentTracker._keep",
        old="self.endpoint.owed.wake()",
        new="pass",
        tests=("tests/api/runs/test_job_progress.py::test_the_cancel_leaves_as_soon_as_the_checkpoint_is_known",),
    ),
    Fault(
        name="a function of the script itself is a step, and each process runs the script for it",
        path="orchestrator/api/python/pipeline.py::_reference",
        old='module is None or module.__name__ == "__main__" or',
        new="module is None or",
        tests=("tests/api/python/test_pipeline_structs.py::test_a_function_of_the_script_itself_is_refused",),
    ),
    Fault(
        name="a program that only carries out flows fires as well",
        path="orchestrator/api/python/program_flows.py::ProgramFlows.fire",
        old="self._scheduler.fire_no_more()",
        new="pass",
        tests=("tests/api/python/test_flow_handle.py::test_it_fires_while_it_serves_and_not_before_or_after",),
    ),
)
