"""Submissions that are one too many, and what is done about them."""

from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.cancel_reason import CancelWhy
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.ledger.commands.command_types import Action
from orchestrator.settings.run_settings import RunSettings
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import Process, process
from tests.engine.scripted import (
    CANCELLED,
    COMPLETED,
    CUT,
    FAILED,
    GONE,
    IN_PROGRESS,
    REFUSED,
    Reply,
    Script,
    Scripted,
    gaps,
    in_turn,
    numbered,
    says,
)
from tests.ledger.ledgers import obeyed
from tests.simulation.run import run as run_world

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SOON = RunSettings(uncertain_after_us=5_000_000)
FIRST = says("COMPLETED", "r-1", output="first", delayTime=1, executionTime=2)
SECOND = says("COMPLETED", "r-2", output="second", delayTime=1, executionTime=2)


def twice(cancel: Script | Reply = CANCELLED, status: Script | Reply = IN_PROGRESS) -> Scripted:
    """The answer to the first submission never comes; the second one becomes `r-2`."""
    return Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-2")), status=status, cancel=cancel)


async def sent_twice(p: Process) -> tuple[int, int]:
    """Both submissions of the first job, once the second one is outstanding."""
    await p.until(State.UNCERTAIN)
    first = await submission_of(p)
    await p.until(State.OUTSTANDING)
    return first, await submission_of(p)


async def owed(p: Process) -> list[str]:
    due = await p.ledger.jobs.cancels.due(now=p.clock.now() + 10**12, after=(0, 0), most=10)
    return [each.remote_id for each in due]


async def test_a_result_of_a_submission_that_was_given_up_wins_and_the_other_one_is_cancelled(tmp_path: Path) -> None:
    transport = twice()
    async with process(tmp_path / "db", transport, webhooks=True, settings=SOON) as p:
        await p.begin()
        first, second = await sent_twice(p)
        await tell(p, first, FIRST)
        await p.finish()
        await anyio.sleep(6)
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-2"]
        for _ in range(2):  # nor do repetitions, or the end of the other, count again
            await tell(p, first, FIRST)
            await tell(p, second, SECOND)
        await anyio.sleep(6)
        assert [result.output for result in await p.results()] == [b'"first"']
        assert (await p.counts())["paid_twice"] == p.progress.count("paid_twice") == 1
        assert len(transport.of("cancel")) == 1


async def test_a_submission_that_ran_after_all_is_counted_once_though_the_other_one_was_faster(tmp_path: Path) -> None:
    async with process(tmp_path / "db", twice(status=SECOND), webhooks=True, settings=SOON) as p:
        await p.begin()
        first, second = await sent_twice(p)
        await p.finish()
        await tell(p, second, SECOND)
        await anyio.sleep(1)
        assert "paid_twice" not in await p.counts()
        for record in (FIRST, FIRST, says("FAILED", "r-1", error="boom")):
            await tell(p, first, record)
            await anyio.sleep(1)
        assert (await p.counts())["paid_twice"] == p.progress.count("paid_twice") == 1
        assert [result.output for result in await p.results()] == [b'"second"']
        assert await p.ledger.jobs.notices.count() == 0


async def test_a_failure_of_a_submission_that_was_given_up_is_paid_too_and_the_other_one_goes_on(
    tmp_path: Path,
) -> None:
    transport = twice()
    async with process(tmp_path / "db", transport, webhooks=True, settings=SOON) as p:
        await p.begin()
        first, _ = await sent_twice(p)
        await tell(p, first, says("CANCELLED", "r-1"))  # never ran
        await anyio.sleep(1)
        assert "paid_twice" not in await p.counts()
        await tell(p, first, says("FAILED", "r-1", error="boom"))
        await anyio.sleep(6)
        assert (await p.counts())["paid_twice"] == 1
        assert ((await p.job()).state, transport.of("cancel")) == (State.OUTSTANDING, [])


async def test_a_late_result_before_anything_was_sent_again_costs_nothing(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), webhooks=True, settings=SOON) as p:
        await p.start("dispatcher", "inbox", "canceller")
        await p.until(State.UNCERTAIN)
        await tell(p, await submission_of(p), FIRST)
        await p.finish()
        await tell(p, await submission_of(p), FIRST)
        await anyio.sleep(1)
        assert await p.counts() == {"succeeded": 1, "uncertain_seen": 1, "uncertain_adopted": 1}
        assert await owed(p) == []


async def test_the_other_one_is_cancelled_also_where_its_answer_comes_after_the_result(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-2")._replace(after_s=8)))
    async with process(tmp_path / "db", transport, webhooks=True, settings=SOON) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        first = await submission_of(p)
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await p.until(State.SUBMITTING)
        await tell(p, first, FIRST)
        await p.finish()
        assert (await owed(p), transport.of("cancel")) == ([], [])  # nobody knows its id yet
        await anyio.sleep(15)
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-2"]


async def test_one_that_is_uncertain_itself_counts_only_once_it_is_known_to_have_run(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), webhooks=True, settings=SOON) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        first = await submission_of(p)
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await p.until(State.UNCERTAIN)
        second = await submission_of(p)
        await tell(p, first, FIRST)
        await p.finish()
        assert "paid_twice" not in await p.counts()
        await tell(p, second, SECOND)
        await anyio.sleep(1)
        assert (await p.counts())["paid_twice"] == 1


def cancelled_once_asked(transport: Scripted) -> Reply:
    return CANCELLED if transport.of("cancel") else IN_PROGRESS


async def outstanding_and_owed(p: Process, why: CancelWhy) -> None:
    await p.begin()
    await p.until(State.OUTSTANDING)
    assert await p.ledger.jobs.cancels.owe([1, 2, 3], why, now=p.clock.now()) == [1]
    p.canceller.wake()


@pytest.mark.parametrize("answer", [CANCELLED, GONE, Reply(400), Reply(409)])
async def test_any_answer_about_the_job_settles_the_debt_and_the_status_says_what_became_of_it(
    tmp_path: Path, answer: Reply
) -> None:
    transport = Scripted(cancel=answer, status=lambda _: cancelled_once_asked(transport))
    async with process(tmp_path / "db", transport) as p:
        await outstanding_and_owed(p, CancelWhy.ASKED)
        await p.finish()
        assert (await p.counts())["cancelled"] == 1
        assert (await owed(p), len(transport.of("cancel"))) == ([], 1)
        assert transport.asked[-1].at_s - transport.of("cancel")[0].at_s < 0.2  # asked for at once


async def test_a_cancel_without_an_answer_is_sent_again_and_the_services_wish_obeyed(tmp_path: Path) -> None:
    silence = (REFUSED, CUT, Reply(500), Reply(429, headers={"retry-after": "20"}), CANCELLED)
    transport = Scripted(cancel=in_turn(*silence))
    async with process(tmp_path / "db", transport) as p:
        await outstanding_and_owed(p, CancelWhy.ASKED)
        await anyio.sleep(120)
        pauses = gaps(transport.times("cancel"))
        assert len(pauses) == 4
        assert pauses[-1] >= 20
        assert await owed(p) == []


async def test_a_job_that_was_stuck_is_sent_anew_once_it_is_cancelled(tmp_path: Path) -> None:
    transport = Scripted(
        run=in_turn(says("IN_QUEUE"), says("IN_QUEUE", "r-2")),
        status=lambda asked: SECOND if asked.remote_id == "r-2" else cancelled_once_asked(transport),
    )
    async with process(tmp_path / "db", transport) as p:
        await outstanding_and_owed(p, CancelWhy.STUCK)
        await p.finish()
        assert await p.story() == [
            "claimed", "accepted", "retried timed_out", "claimed", "accepted", "completed",
        ]  # fmt: skip
        assert [(result.attempts, result.output) for result in await p.results()] == [(2, b'"second"')]
        assert transport.of("retry") == []  # the service takes no /retry of a cancelled job


def test_what_is_owed_outlives_a_crash_and_is_settled_by_the_next_process(tmp_path: Path) -> None:
    async def dies() -> None:
        async with process(tmp_path / "db", Scripted()) as p:
            await p.start("dispatcher", "collector")
            await p.until(State.OUTSTANDING)
            await p.ledger.jobs.cancels.owe([1], CancelWhy.STUCK, now=p.clock.now())

    async def goes_on() -> None:
        transport = Scripted(
            run=says("IN_QUEUE", "r-2"),
            status=lambda asked: COMPLETED if asked.remote_id == "r-2" else cancelled_once_asked(transport),
        )
        async with process(tmp_path / "db", transport) as p:
            await p.begin()
            await p.finish()
            assert [asked.remote_id for asked in transport.of("cancel")] == ["r-1"]
            assert [result.attempts for result in await p.results()] == [2]

    run_world(dies)
    run_world(goes_on)


async def test_what_another_process_serves_is_left_to_it(tmp_path: Path) -> None:
    transport = Scripted(run=numbered())
    async with process(tmp_path / "db", transport, jobs=2) as p:
        await p.start("dispatcher", "collector")
        await p.until(State.OUTSTANDING, 2)
        del p.endpoints[p.endpoint.id]
        await p.start("canceller")
        await p.ledger.jobs.cancels.owe([1, 2], CancelWhy.ASKED, now=p.clock.now())
        await anyio.sleep(30)
        assert (await owed(p), transport.of("cancel")) == (["r-1", "r-2"], [])


@pytest.mark.slow
async def test_cancellations_keep_to_their_limit(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), cancel=CANCELLED._replace(after_s=0.2))
    async with process(tmp_path / "db", transport, jobs=150) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 150)
        await p.ledger.jobs.cancels.owe(range(1, 151), CancelWhy.ASKED, now=p.clock.now())
        await p.canceller.finish()
        sent = transport.times("cancel")
        assert len(sent) == 150
        assert max(sum(1 for other in sent if at <= other < at + 10) for at in sent) <= 100
        assert sent[-1] - sent[0] < 17


async def test_a_failure_that_comes_with_a_stuck_job_is_an_ordinary_failure(tmp_path: Path) -> None:
    transport = Scripted(status=lambda _: FAILED if transport.of("cancel") else IN_PROGRESS)
    async with process(tmp_path / "db", transport, settings=RunSettings(max_attempts=1)) as p:
        await outstanding_and_owed(p, CancelWhy.STUCK)
        await p.finish()
        assert [failure.trouble for failure in await p.failures()] == ["failed"]
        assert (await p.counts())["failed_executions"] == 1


async def wish(p: Process, action: Action) -> None:
    """What another process asks of the run."""
    await obeyed(p.ledger, action, run=p.run.id)
    p.control.on_change()


async def test_continue_takes_back_every_cancel_that_has_not_left(tmp_path: Path) -> None:
    """Those that wait for their turn in memory, too; and nothing is owed afterwards, though the word comes late."""
    transport = Scripted(run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, output=1))
    async with process(tmp_path / "db", transport, jobs=150) as p:
        transport.scripts["status"] = IN_PROGRESS
        await p.begin()
        await p.until(State.OUTSTANDING, 150)
        await wish(p, Action.CANCEL)
        await anyio.sleep(3)
        sent = len(transport.of("cancel"))
        assert 20 < sent < 50
        await obeyed(p.ledger, Action.CONTINUE, run=p.run.id)
        await anyio.sleep(5)  # nobody has told the one who carries it out
        assert (len(transport.of("cancel")), await owed(p)) == (sent, [])
        await wish(p, Action.CONTINUE)
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await p.finish()
        assert len(transport.of("cancel")) == sent
        assert (await p.counts())["succeeded"] == 150


async def test_a_run_that_goes_on_after_all_loses_no_job_to_a_cancelling_that_has_not_heard_of_it(
    tmp_path: Path,
) -> None:
    async with process(tmp_path / "db", Scripted(run=in_turn(says("IN_QUEUE"), CUT)), jobs=2) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await p.until(State.UNCERTAIN)
        await wish(p, Action.CANCEL)
        await wish(p, Action.CONTINUE)
        assert await p.ledger.jobs.cancels.end(p.run.id, most=9) == 0
        assert await p.ledger.jobs.cancels.owe_run(p.run.id, most=9, now=p.clock.now()) == 0
        assert (await p.counts())["uncertain"] == 1
        assert await owed(p) == []


async def test_a_cancelled_run_cancels_an_uncertain_submission_once_a_webhook_names_it(tmp_path: Path) -> None:
    """It is owed in the ledger from the start, and not sent where the webhook brings the result."""
    transport = Scripted(run=CUT)
    async with process(tmp_path / "db", transport, jobs=3, webhooks=True) as p:
        await p.begin()
        await p.until(State.UNCERTAIN, 3)
        await wish(p, Action.CANCEL)
        await p.finish()
        assert ((await p.counts())["cancelled"], transport.of("cancel")) == (3, [])
        await tell(p, await submission_of(p, 1), says("IN_PROGRESS", "r-1"))
        await tell(p, await submission_of(p, 2), says("COMPLETED", "r-2", output=2))
        await tell(p, await submission_of(p, 3), says("FAILED", "r-3"))
        await anyio.sleep(0.5)
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-1"]
        assert [result.output for result in await p.results()] == [b"2"]
        assert "paid_twice" not in await p.counts()


async def test_continue_takes_back_what_is_owed_for_uncertain_submissions_too(tmp_path: Path) -> None:
    transport = Scripted(run=CUT)
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await wish(p, Action.CANCEL)
        await p.finish()
        await wish(p, Action.CONTINUE)
        await tell(p, await submission_of(p), says("IN_PROGRESS", "r-1"))
        await anyio.sleep(10)
        assert transport.of("cancel") == []


async def test_what_was_moved_is_sent_anew_where_an_earlier_process_has_not_heard_that_it_was_cancelled(
    tmp_path: Path,
) -> None:
    transport = Scripted(
        run=in_turn(says("IN_QUEUE", "r-1"), says("IN_QUEUE", "r-2")),
        status=lambda asked: CANCELLED if asked.remote_id == "r-1" else COMPLETED,
    )
    async with process(tmp_path / "db", transport) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await p.ledger.jobs.cancels.owe([1], CancelWhy.MOVED, now=p.clock.now())
        await p.canceller.finish()
        await p.start("collector")
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "deferred", "claimed", "accepted", "completed"]
        assert transport.of("cancel") == []


async def test_a_result_that_is_met_on_the_way_to_a_move_is_taken_and_not_asked_for_again(tmp_path: Path) -> None:
    transport = Scripted(run=says("IN_QUEUE", "r-1"), status=COMPLETED)
    async with process(tmp_path / "db", transport) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await p.ledger.jobs.cancels.owe([1], CancelWhy.MOVED, now=p.clock.now())
        await p.canceller.finish()
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "completed"]
        assert len(transport.of("status")) == 1
        assert transport.of("cancel") == []


async def test_what_was_to_be_moved_and_is_over_by_a_webhook_is_owed_nothing_more(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(says("IN_QUEUE", "r-1"), says("IN_QUEUE", "r-2")))
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.start("dispatcher", "inbox")
        await p.until(State.OUTSTANDING)
        await p.ledger.jobs.cancels.owe([1], CancelWhy.MOVED, now=p.clock.now())
        await tell(p, await submission_of(p), says("CANCELLED", "r-1"))
        await p.until_event(lambda step: step.after.remote_id == "r-2")
        await p.canceller.finish()
        assert await owed(p) == []
        assert transport.of("status") == transport.of("cancel") == []
