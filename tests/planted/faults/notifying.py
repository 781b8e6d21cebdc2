"""What people are told of flows, and what becomes of it: reuse, and what is kept."""

from tests.planted.faults.fault import Fault

_NOTIFICATIONS = "tests/api/flows/test_notifications.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="why a flow is held names commands that look for another ledger",
        path="orchestrator/api/flows/flows.py::status_of",
        old="why=with_its_ledger(flow.why, ledger),",
        new="why=flow.why,",
        tests=(
            "tests/api/flows/test_braked_flows.py::test_whatever_brake_stops_a_run_holds_its_flow_until_people_go_on",
        ),
    ),
    Fault(
        name="that a run is over is not owed by the step that ends it",
        path="orchestrator/ledger/transitions/handover_debts.py::owed_write",
        old="are_signalled = await ends_owe(connection, {step.after.run for step in ended}, now=ended[0].at)",
        new="pass",
        tests=(
            "tests/conformance/test_run_outbox.py::test_the_step_that_ends_the_last_job_owes_it_where_the_run_tells_somebody",
        ),
    ),
    Fault(
        name="a standstill is told again by each process that finds it",
        path="orchestrator/ledger/transitions/run_messages_owed.py::episode_begin",
        old="return False",
        new="pass",
        tests=(
            "tests/engine/flows/test_run_notifier.py::test_what_has_stopped_a_run_is_told_once_until_it_has_gone_on",
        ),
    ),
    Fault(
        name="a program's run is told of before its inputs are read",
        path="orchestrator/api/python/submission.py::Submission.take",
        old="quiet = settings if self.all_or_nothing else replace(settings, notify=None)",
        new="quiet = settings",
        tests=(
            "tests/engine/flows/test_run_notifier.py::test_a_program_s_run_is_told_of_once_its_inputs_were_read_and_not_before",
        ),
    ),
    Fault(
        name="what nobody took of a run is given up at once",
        path="orchestrator/engine/flows/outbox_sender.py::OutboxSender.send_once",
        old="if not came.is_wanted:\n    due_at = None",
        new="due_at = None",
        tests=(
            "tests/engine/flows/test_run_notifier.py::test_who_does_not_answer_is_told_later_by_the_next_process_under_the_same_id",
        ),
    ),
    Fault(
        name="what happens to a flow is owed to nobody",
        path="orchestrator/ledger/flows/flow_events.py::flow_happens",
        old="await flow_owe(connection, flow, news, why, now)",
        new="pass",
        tests=(f"{_NOTIFICATIONS}::test_killed_at_a_commit_each_news_is_owed_once",),
    ),
    Fault(
        name="what nobody took counts as told",
        path="orchestrator/engine/flows/outbox_sender.py::OutboxSender.send_once",
        old="if came.problem is None:",
        new="if came.problem != message.problem:",
        tests=(f"{_NOTIFICATIONS}::test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it",),
    ),
    Fault(
        name="a message that is sent again is another one for its receiver",
        path="orchestrator/api/messages/message_senders.py::MessageSender._outgoing",
        old="message_id(told.id, told.owed_at,",
        new="message_id(told.id, self._dependencies.clock.now(),",
        tests=(f"{_NOTIFICATIONS}::test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it",),
        worlds=("told", 0, 3),
    ),
    Fault(
        name="a message that a clock owed that was ahead gets another name",
        path="orchestrator/ledger/runs/clock_repair.py::KEPT",
        old='"run_outbox.owed_at": "the same",',
        new="",
        tests=(
            "tests/ledger/runs/test_clock_repair.py::test_every_stored_time_that_lies_in_the_future_is_brought_back_or_may_lie_there",
        ),
        worlds=("swarm", 7, 1),
    ),
    Fault(
        name="who is stopped while it begins waits for ever",
        path="orchestrator/engine/runtime/work_groups.py::writing_until_left",
        old="writing = anyio.CancelScope()",
        new="writing = anyio.CancelScope(shield=True)",
        tests=(
            "tests/engine/runtime/test_work_groups.py::test_who_is_stopped_while_the_writer_begins_has_ended_at_once",
        ),
        worlds=("swarm", 25, 1),
    ),
    Fault(
        name="a redirect counts as taken",
        path="orchestrator/client/notify/delivery.py::_OK",
        old="_OK: Final = range(200, 300)",
        new="_OK: Final = range(200, 400)",
        tests=(f"{_NOTIFICATIONS}::test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it",),
    ),
    Fault(
        name="a result of another version of the endpoint is taken again",
        path="orchestrator/ledger/jobs/result_reuse.py::_keys",
        old="reuse_key(service_url, name, digest, reuse.version)",
        new='reuse_key(service_url, name, digest, "")',
        tests=("tests/conformance/test_reuse.py::test_results_of_another_version_are_not_taken",),
    ),
    Fault(
        name="a result is taken again however old it is",
        path="orchestrator/core/jobs/result_reuse.py::why_not",
        old="if now - ended_at > reuse.young_us:",
        new="if now < ended_at:",
        tests=("tests/core/jobs/test_result_reuse.py::test_a_result_is_taken_while_it_is_young",),
    ),
    Fault(
        name="a result that was damaged on the disk is taken again",
        path="orchestrator/ledger/jobs/result_reuse.py::_Result.output",
        old="raise DamagedError",
        new="pass",
        tests=("tests/conformance/test_reuse.py::test_a_damaged_result_is_not_taken",),
    ),
    Fault(
        name="rows go of which somebody has something done again",
        path="orchestrator/ledger/transactions/run_removal.py::run_give_up",
        old="if (await connection.execute(is_at_work)).first() is not None:",
        new="if False:",
        tests=(
            "tests/conformance/test_posted_batches.py::test_those_are_found_and_forgotten_with_their_runs_that_ended_long_ago",
        ),
    ),
    Fault(
        name="of a resumable job that has ended the oldest checkpoint is kept",
        path="orchestrator/ledger/reports/event_pruning.py::_CHECKPOINTS_DELETE",
        old="(_newer.c.seq > checkpoints.c.seq)",
        new="(_newer.c.seq < checkpoints.c.seq)",
        tests=("tests/engine/maintenance/test_pruning.py::test_of_a_job_that_has_ended_the_newest_checkpoint_is_left",),
    ),
    Fault(
        name="who looks for what is owed as the work ends begins to send it",
        path="orchestrator/engine/flows/outbox_sender.py::OutboxSender.send_due",
        old="if self._is_working and receiver not in self._busy:",
        new="if receiver not in self._busy:",
        tests=(
            "tests/engine/flows/test_outbox_sender.py::test_once_it_has_ended_who_looked_before_begins_nothing_more",
        ),
        worlds=("chunks", 35, 1),
    ),
    Fault(
        name="a message has the time of the machine that sends it",
        path="orchestrator/api/hosting/host.py::Host.begin",
        old="dependencies=self.dependencies.with_clock(engine.ledger.clock),",
        new="dependencies=self.dependencies,",
        tests=(
            "tests/api/hosting/test_run_share.py::test_whoever_hears_of_it_is_told_the_time_of_the_server_by_a_machine_whose_clock_is_wrong",
        ),
    ),
    Fault(
        name="a message that is sent from outside has the time of the machine that sends it",
        path="orchestrator/api/messages/outside_sender.py::OutsideSender.of",
        old="dependencies.with_clock(ledger.clock)",
        new="dependencies",
        tests=("tests/api/messages/test_message_resend.py::test_what_is_sent_from_outside_has_the_time_of_the_ledger",),
    ),
    Fault(
        name="that the ledger is away is told with the time of the machine",
        path="orchestrator/api/messages/ledger_alarm.py::LedgerAlarm._tell",
        old="self.dependencies.with_clock(self.ledger.clock)",
        new="self.dependencies",
        tests=("tests/api/messages/test_ledger_alarm.py::test_what_is_told_has_the_time_of_the_ledger",),
    ),
)
