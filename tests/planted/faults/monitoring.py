"""Monitoring: counters that fall, a dead process that seems to live, alerts that stay silent, spans that are left out."""

from tests.planted.faults.fault import Fault

_SNAPSHOT = "tests/telemetry/metrics/test_snapshot_reader.py::"
_SENDER = "tests/telemetry/traces/test_trace_sender.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a flow that goes on takes back that it had ended",
        path="orchestrator/telemetry/metrics/pipeline_readings.py::read_pipelines",
        old="value=ended.get(state.value, 0)",
        new="value=there.get(state.value, 0)",
        tests=(_SNAPSHOT + "test_what_was_counted_goes_on_whoever_asks_and_is_there",),
    ),
    Fault(
        name="what a dead process said last is told as if it were so now",
        path="orchestrator/telemetry/metrics/snapshot_reader.py::read_snapshot",
        old="now - FRESH_US if present else now + FRESH_US",
        new="0",
        tests=(_SNAPSHOT + "test_of_a_process_that_is_dead_only_what_it_has_counted_is_told",),
    ),
    Fault(
        name="a process that beats while metrics are read is said to be gone",
        path="orchestrator/telemetry/metrics/snapshot_reader.py::read_snapshot",
        old="present = [] if held_by is None else at_work(beats, now, since=await ledger.taken_at() or 0)",
        new="present = await ledger.beats_at_work(held_by)",
        tests=(_SNAPSHOT + "test_a_process_that_beats_meanwhile_is_at_work_all_the_same",),
    ),
    Fault(
        name="an address that is written out is a label",
        path="orchestrator/telemetry/metrics/message_readings.py::read_messages",
        old="label(target) if target else WRITTEN_OUT",
        new="label(target)",
        tests=(_SNAPSHOT + "test_what_the_process_wrote_down_is_told_as_it_stands",),
    ),
    Fault(
        name="nobody is called for jobs that a killed process sent after its last sample",
        path="orchestrator/telemetry/metrics/endpoint_readings.py::_safe_until",
        old="if not unsaid:",
        new="if True:",
        tests=(_SNAPSHOT + "test_jobs_that_were_sent_after_the_last_sample_of_a_dead_process_are_watched",),
    ),
    Fault(
        name="a message that is given up is not counted",
        path="orchestrator/ledger/flows/outbox.py::Messages.undelivered",
        old='"given_up"',
        new='""',
        tests=("tests/conformance/test_tallies.py::test_messages_are_counted_by_target_as_they_wait_and_as_they_end",),
    ),
    Fault(
        name="spans that nobody took are left out",
        path="orchestrator/telemetry/traces/trace_sender.py::TraceSender._send_some",
        old="while not await self.send(spans):",
        new="if not await self.send(spans):",
        tests=(_SENDER + "test_what_is_not_taken_waits_and_nothing_is_left_out",),
    ),
    Fault(
        name="a place is written down before its spans are sent",
        path="orchestrator/telemetry/traces/trace_sender.py::TraceSender._catch_up",
        old="            await self._send(await self._of_jobs(page))\n            until = self._keep(until._replace(place=page[-1].place, at=page[-1].at))",
        new="            until = self._keep(until._replace(place=page[-1].place, at=page[-1].at))\n            await self._send(await self._of_jobs(page))",
        tests=(_SENDER + "test_who_is_killed_before_it_is_written_down_sends_the_same_again",),
    ),
    Fault(
        name="events whose numbers are given again are taken for those that were told of",
        path="orchestrator/telemetry/traces/trace_sender.py::TraceSender._found_again",
        old="if not until.place or await feed.at(until.place) == until.at:",
        new="if True:",
        tests=(_SENDER + "test_where_events_were_deleted_their_numbers_that_are_given_again_are_told_of",),
    ),
    Fault(
        name="of a ledger that comes later the first jobs are not told of",
        path="orchestrator/telemetry/traces/trace_service.py::_Traces._send",
        old="if file is None:",
        new="if False:",
        tests=(
            "tests/telemetry/traces/test_otlp.py::test_a_ledger_that_comes_later_is_told_of_from_its_beginning_and_so_is_another_in_its_place",
        ),
    ),
)
