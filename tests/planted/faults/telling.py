"""Whether people hear of what has happened: once, by one process, and of nothing that is not so."""

from tests.planted.faults.fault import Fault

_WATCH = "tests/api/messages/test_abandonment_watch.py"
_RUNS = "tests/engine/flows/test_run_notifier.py"
_LEDGER = "tests/conformance/test_abandonments.py"
_RULES = "tests/core/pipelines/test_abandonment.py"
_PINGS = "tests/engine/flows/test_liveness_pings.py"
_FACTS = "tests/conformance/test_told_with_its_fact.py"

_HAPPENS = """found = await connection.execute(FLOW_STEPS[event], {"of": flow, "because": why, "now": now})
if not found.rowcount:
    return False
if (state := after(event)) in ENDED:
    pipeline = (await connection.execute(_PIPELINE_OF, {"flow": flow})).scalar_one()
    await flow_end_count(connection, pipeline, state)
"""
_OWED = """if (news := OF_EVENT.get(event)) is not None:
    await flow_owe(connection, flow, news, why, now)"""
_BEGUN = 'await connection.execute(insert(episodes), {"run_id": run.id, "news": news.value, "began_at": now})'
_COMMIT = (
    "driver = (await connection.get_raw_connection()).driver_connection; await driver.commit(); "
    'await driver.execute("BEGIN IMMEDIATE")'
)

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="a dashboard that can only read its ledger says nothing of those whom it cannot tell",
        path="orchestrator/api/messages/abandonment_watch.py::AbandonmentWatch._know_right",
        old="if state is not None and state.is_read_only:",
        new="if False:",
        tests=(
            "tests/ledger/administration/test_roles.py::test_a_dashboard_that_can_only_read_says_once_that_it_tells_nobody",
        ),
    ),
    Fault(
        name="a message counts as told before it was sent",
        path="orchestrator/engine/flows/outbox_sender.py::OutboxSender.send_once",
        old="came = await self.send(replace(message, body=self.scrub(message.body)))",
        new="await self.outbox.delivered(message.id)\ncame = await self.send(replace(message, body=message.body))",
        tests=(f"{_RUNS}::test_killed_between_sending_and_noting_it_is_sent_again_with_the_same_id",),
    ),
    Fault(
        name="what happens to a flow is told before it is committed",
        path="orchestrator/ledger/flows/flow_events.py::flow_happens",
        old=_HAPPENS + _OWED,
        new="if (news := OF_EVENT.get(event)) is not None:\n"
        f"    await flow_owe(connection, flow, news, why, now)\n    {_COMMIT}\n{_HAPPENS}",
        tests=(f"{_FACTS}::test_that_a_flow_has_ended_is_owed_by_the_transaction_in_which_it_ends",),
    ),
    Fault(
        name="what holds of a run is told before that is committed",
        path="orchestrator/ledger/transitions/run_messages_owed.py::episode_begin",
        old=f"{_BEGUN}\nreturn await news_owe(connection, run, news, now=now, why=why)",
        new=f"is_owed = await news_owe(connection, run, news, now=now, why=why)\n{_COMMIT}\n{_BEGUN}\nreturn is_owed",
        tests=(f"{_FACTS}::test_what_holds_of_a_run_is_owed_by_the_transaction_that_writes_it_down",),
    ),
    Fault(
        name="what holds of a run is told and not written down with the message",
        path="orchestrator/ledger/transitions/run_messages_owed.py::episode_begin",
        old='await connection.execute(insert(episodes), {"run_id": run.id, "news": news.value, "began_at": now})',
        new="pass",
        tests=(f"{_RUNS}::test_what_has_stopped_a_run_is_told_once_until_it_has_gone_on",),
    ),
    Fault(
        name="who does not have the ledger sends without claiming",
        path="orchestrator/api/messages/outside_sender.py::OutsideSender._sent",
        old="if message.due_at == claimed_until or await self._claim(outbox, message):",
        new="if message.due_at:",
        tests=(f"{_WATCH}::test_what_nobody_took_is_sent_again_but_not_where_somebody_works_meanwhile",),
    ),
    Fault(
        name="who claims a message does not look whether somebody has begun to work",
        path="orchestrator/api/messages/outside_sender.py::OutsideSender._claim",
        old="if await silent_since(self.ledger) is None:",
        new="if not until:",
        tests=(f"{_WATCH}::test_what_nobody_took_is_sent_again_but_not_where_somebody_works_meanwhile",),
    ),
    Fault(
        name="that nobody works is owed without being whose it is who owes it",
        path="orchestrator/ledger/monitoring/abandonments.py::Abandonments.owe",
        old='"due_at": until}',
        new='"due_at": now}',
        tests=(f"{_LEDGER}::test_it_is_owed_once_and_is_his_who_was_first_for_a_while",),
    ),
    Fault(
        name="that nobody works is said while somebody has just begun to",
        path="orchestrator/api/messages/outside_claims.py::silent_since",
        old="heard_at = max(heard_at, await ledger.taken_at() or 0)",
        new="pass",
        tests=(f"{_WATCH}::test_nobody_is_told_while_somebody_works_and_says_so",),
    ),
    Fault(
        name="that nobody works is said of who was heard of since it was looked at",
        path="orchestrator/ledger/monitoring/abandonments.py::Abandonments.owe",
        old="if ((await connection.execute(_HEARD)).scalar() or 0) > heard_at:",
        new="if not heard_at:",
        tests=(f"{_LEDGER}::test_nothing_is_owed_where_somebody_was_heard_of_since_it_was_looked_at",),
    ),
    Fault(
        name="that nobody works is told again by each who looks",
        path="orchestrator/core/pipelines/abandonment.py::is_new_episode",
        old="return told_at is None or heard_at - told_at >= SAME_US",
        new="return True",
        tests=(
            f"{_WATCH}::test_two_dashboards_tell_it_once_ten_minutes_before_a_result_may_be_gone",
            f"{_RULES}::test_it_is_another_time_once_somebody_was_heard_of_long_after_it_was_told",
        ),
    ),
    Fault(
        name="a heartbeat goes on after its process has stopped working",
        path="orchestrator/engine/flows/liveness_pings.py::LivenessPings.serve",
        old="async with anyio.create_task_group() as tasks:\n    for target, every_us in self.sender.heartbeats.items():\n"
        "        tasks.start_soon(self._ping, target, every_us)",
        new="self.written_at = self.clock.now\nfor target, every_us in self.sender.heartbeats.items():\n"
        '    __import__("asyncio").ensure_future(self._ping(target, every_us))',
        tests=(f"{_PINGS}::test_it_is_heard_at_once_and_every_so_often_until_the_process_ends",),
    ),
    Fault(
        name="a process that cannot write its ledger says that it works",
        path="orchestrator/engine/flows/liveness_pings.py::LivenessPings._ping",
        old="if self.clock.now() - self.written_at() <= STALE_US:",
        new="if self.clock.now():",
        tests=(f"{_PINGS}::test_a_process_that_cannot_write_its_ledger_is_not_at_work",),
    ),
    Fault(
        name="a run whose service is out of reach is nothing to tell of",
        path="orchestrator/engine/hosting/run_session.py::RunSession.why_stalled",
        old="return UNREACHABLE",
        new="return None",
        tests=("tests/engine/flows/test_run_episodes.py::test_a_service_that_cannot_be_reached_is_a_standstill_too",),
    ),
    Fault(
        name="who takes a message and says much is told it again and again",
        path="orchestrator/client/http/posts.py::post_notification",
        old="is_head_enough=True",
        new="is_head_enough=False",
        tests=(
            "tests/client/http/test_posts.py::test_an_answer_is_taken_however_long_it_is_and_whether_or_not_it_ever_ends",
            "tests/simulation/test_receivers.py::test_each_has_heard_all_once_whatever_they_did_with_it_before",
        ),
    ),
)
