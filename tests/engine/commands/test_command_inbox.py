"""What the process that serves a ledger makes of the commands of others."""

from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.hosting.follower import followed_run
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import UsageError
from orchestrator.ledger import dispatcher_lock
from orchestrator.ledger.commands.command_types import OF_ANOTHER, Action, Argument, CancelledJobs, Command, Reply
from orchestrator.settings.addresses.ledger_address import file_of
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.run_settings import RunSettings
from tests.engine.process import Process, process
from tests.engine.rows import rows
from tests.engine.scripted import CANCELLED, FAILED, IN_PROGRESS, Asked, Scripted, numbered, says
from tests.engine.scripted import Reply as ProcessReport
from tests.factories import S

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def asked(p: Process, action: str, argument: Argument | None = None, *, run: int | None = None) -> Command:
    """A command as it stands once it was acknowledged."""
    number = await p.ledger.commands.ask(action, run=p.run.id if run is None else run, argument=argument)
    p.engine.commands.on_change()  # as after a commit of another process
    return await p.ledger.commands.answer(number)


def cancellable() -> Scripted:
    """A service whose jobs are in progress until they are cancelled."""

    def status(asked: Asked) -> ProcessReport:
        return CANCELLED if asked.remote_id in {each.remote_id for each in transport.of("cancel")} else IN_PROGRESS

    transport = Scripted(run=numbered(), status=status)
    return transport


async def counts(p: Process, run: int) -> dict[str, int]:
    found = await p.ledger.runs.counts(run)
    return {state.value: found[state] for state in State if found.get(state)}


async def test_a_run_that_is_only_collected_for_is_cancelled_when_that_is_asked(tmp_path: Path) -> None:
    transport = cancellable()
    async with process(tmp_path / "db", transport, name="a", jobs=20) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 10)
        a = p.run.id
    async with process(tmp_path / "db", transport, name="b", jobs=rows(21)[20:]) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        assert transport.of("cancel") == []
        answer = await asked(p, Action.CANCEL, run=a)
        assert answer.outcome == "nothing more of it is sent; 20 unfinished jobs to be cancelled"
        await anyio.sleep(60)
        assert await counts(p, a) == {"cancelled": 20}
        assert len(transport.of("cancel")) == len({each.remote_id for each in transport.of("cancel")}) >= 10
        assert await counts(p, p.run.id) == {"outstanding": 1}, "the other one is untouched"
        assert any(warning.startswith("a is cancelled: nothing more is sent") for warning in p.warnings)


async def test_cancelled_jobs_are_queued_again_when_that_is_asked_and_the_run_goes_on(tmp_path: Path) -> None:
    transport = cancellable()
    async with process(tmp_path / "db", transport, jobs=5) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 5)
        await asked(p, Action.CANCEL)
        await p.finish()
        refused = await asked(p, Action.RETRY)
        assert (refused.is_refused, "continue it first" in (refused.outcome or "")) == (True, True)
        await asked(p, Action.CONTINUE)
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        assert (await asked(p, Action.RETRY)).outcome == "5 cancelled jobs are queued again"
        await p.finish()
        assert p.progress.count("succeeded") == 5
        assert (await asked(p, Action.RETRY)).outcome == "no job of it has failed or was cancelled"


async def test_a_retry_that_a_crash_cut_off_is_carried_out_once(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=FAILED)
    async with process(tmp_path / "db", transport, jobs=3) as p:
        await p.begin()
        await p.finish()
        number = await p.ledger.commands.ask(Action.RETRY, run=p.run.id)
        [command] = await p.ledger.commands.pending()
        handler = p.engine.commands._handlers["retry"]
        assert "3 failed jobs" in (await handler(command)).text  # and then the process was killed
        await p.finish()
        assert p.progress.count("failed") == 3
        p.engine.commands.on_change()
        assert (await p.ledger.commands.answer(number)).outcome == "3 jobs are queued again"
        assert p.progress.count("failed") == 3


async def test_some_jobs_are_tried_again_with_settings_of_their_own(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=FAILED)
    async with process(tmp_path / "db", transport, jobs=5) as p:
        await p.begin()
        await p.finish()
        sent = len(transport.of("run")) + len(transport.of("retry"))
        own = RetryChoice(where="line<=2", execution_timeout_ms=1_800_000, max_attempts=1)
        told = await asked(p, Action.RETRY, own)
        assert told.outcome == "2 failed jobs are queued again, with execution timeout 30 min and 1 attempt"
        await p.finish()
        again = transport.of("run")[-2:]
        assert len(transport.of("run")) + len(transport.of("retry")) == sent + 2, "one attempt each"
        assert [msgspec.json.decode(each.body)["policy"] for each in again] == [{"executionTimeout": 1_800_000}] * 2
        [line] = [event.reason for event in await p.events(1) if event.event == "reopened"]
        assert line.startswith("asked for, with execution timeout 30 min and 1 attempt; it had ended with: ")

        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        assert (await asked(p, Action.RETRY, RetryChoice(where="line>2"))).outcome == "3 failed jobs are queued again"
        assert (await asked(p, Action.RETRY)).outcome == "2 failed jobs are queued again"
        await p.finish()
        assert p.progress.count("succeeded") == 5
        assert all("policy" not in msgspec.json.decode(each.body) for each in transport.of("run")[-5:])


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (RetryChoice(where="stat=failed"), "did you mean state?"),
        (RetryChoice(ttl_ms=1), "policy.ttl is 1 ms"),
        (RetryChoice(where="line=9"), None),
    ],
)
async def test_a_retry_that_makes_no_sense_is_refused(own: RetryChoice, why: str | None, tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered(), status=FAILED)) as p:
        await p.begin()
        await p.finish()
        told = await asked(p, Action.RETRY, own)
        assert told.is_refused is (why is not None)
        assert (why or "no such job of it has failed or was cancelled") in (told.outcome or "")


async def test_some_jobs_are_cancelled_where_they_are_and_the_run_goes_on(tmp_path: Path) -> None:
    transport = cancellable()
    async with process(tmp_path / "db", transport, jobs=6, settings=RunSettings(queue_depth=4)) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 4)
        told = await asked(p, Action.CANCEL_JOBS, CancelledJobs("line<=2 or line>=5"))
        assert told.outcome == "4 jobs are being cancelled, 2 of them at the service"
        assert (
            await asked(p, Action.CANCEL_JOBS, CancelledJobs("line=5"))
        ).outcome == "no such job of it is unfinished"
        await p.wait(lambda: p.progress.count("cancelled") == 4)
        assert len(transport.of("cancel")) == 2
        assert await counts(p, p.run.id) == {"outstanding": 2, "cancelled": 4}
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await p.finish()
        assert await counts(p, p.run.id) == {"succeeded": 2, "cancelled": 4}
        assert {row.message for row in await p.failures()} >= {"it was cancelled on request"}


async def test_a_job_that_fails_before_its_cancelling_is_done_is_not_tried_again(tmp_path: Path) -> None:
    transport = cancellable()
    async with process(tmp_path / "db", transport, jobs=2) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 2)
        transport.scripts["status"] = FAILED
        assert (await asked(p, Action.CANCEL_JOBS, CancelledJobs("line=1"))).outcome == (
            "1 job is being cancelled, at the service"
        )
        await p.finish()
        assert await counts(p, p.run.id) == {"failed": 1, "cancelled": 1}
        assert (await p.story(1)).count("claimed") == 1
        [cancelled] = [row for row in await p.failures() if row.state is State.CANCELLED]
        assert (cancelled.message or "").startswith("it was cancelled on request; its execution had ended with: ")


async def test_a_job_whose_request_is_under_way_is_cancelled_once_that_is_answered(tmp_path: Path) -> None:
    transport = cancellable()
    answer = numbered()
    transport.scripts["run"] = lambda asked: answer(asked)._replace(after_s=3.0)
    async with process(tmp_path / "db", transport, jobs=1) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        number = await p.ledger.commands.ask(Action.CANCEL_JOBS, run=p.run.id, argument=CancelledJobs("line=1"))
        p.engine.commands.on_change()
        told = await p.ledger.commands.answer(number, within_s=10.0)
        assert told.outcome == "1 job is being cancelled, at the service"
        await p.finish()
        assert await counts(p, p.run.id) == {"cancelled": 1}


@pytest.mark.slow
async def test_nothing_waits_for_what_goes_through_many_jobs_and_to_cancel_the_run_cuts_it_short(
    tmp_path: Path,
) -> None:
    """Each call of the database takes its time, so that a page of a thousand jobs takes half a second."""
    pace = [0.0]
    settings = RunSettings(queue_depth=2)
    async with process(tmp_path / "db", cancellable(), jobs=2_600, settings=settings, delay=lambda: pace[0]) as p:
        assert (await asked(p, Action.PAUSE)).done_at is None, "nobody carries anything out yet"
        await p.begin()
        assert (await asked(p, Action.CANCEL_JOBS, CancelledJobs("line>2"))).outcome == "2,598 jobs are being cancelled"
        pace[0] = 0.05
        number = await p.ledger.commands.ask(Action.RETRY, run=p.run.id, argument=RetryChoice(where="state=cancelled"))
        p.engine.commands.on_change()
        await p.until(State.QUEUED, 1_000)
        begun = await p.ledger.commands.one(number)
        assert (begun.progress, begun.done_at) == (1_000, None)
        told = await asked(p, Action.CANCEL)
        assert told.done_at is not None
        assert told.done_at - told.asked_at < S
        cut = await p.ledger.commands.answer(number, within_s=30.0)
        why = "then it was to be cancelled, and the others are not reopened"
        assert cut.outcome == f"{cut.progress:,} cancelled jobs are queued again; {why}"
        assert 1_000 <= cut.progress < 2_598
        pace[0] = 0.0
        await p.finish()
        assert await counts(p, p.run.id) == {"cancelled": 2_600}


async def test_a_pause_does_not_wait_for_a_request_that_a_cancelling_waits_for(tmp_path: Path) -> None:
    transport = cancellable()
    answer = numbered()
    transport.scripts["run"] = lambda asked: answer(asked)._replace(after_s=20.0)
    async with process(tmp_path / "db", transport, jobs=3, settings=RunSettings(queue_depth=1)) as p:
        await p.begin()
        await p.until(State.SUBMITTING)
        number = await p.ledger.commands.ask(Action.CANCEL_JOBS, run=p.run.id, argument=CancelledJobs("line<=2"))
        paused = await asked(p, Action.PAUSE)
        assert paused.done_at is not None
        assert paused.done_at - paused.asked_at < S
        waits = await p.ledger.commands.one(number)
        assert (waits.taken_at is not None, waits.done_at, waits.progress) == (True, None, 1)
        told = await p.ledger.commands.answer(number, within_s=30.0)
        assert told.outcome == "2 jobs are being cancelled, 1 of them at the service"
        await asked(p, Action.CANCEL)
        await p.finish()


@pytest.mark.parametrize("where", ["stat=queued", "("])
async def test_what_is_no_filter_cancels_nothing(where: str, tmp_path: Path) -> None:
    async with process(tmp_path / "db", cancellable(), jobs=1) as p:
        await p.begin()
        told = await asked(p, Action.CANCEL_JOBS, CancelledJobs(where))
        assert (told.is_refused, "cannot be understood" in (told.outcome or "")) == (True, True)
        assert (await asked(p, Action.CANCEL_JOBS, CancelledJobs(""), run=99)).is_refused
        await asked(p, Action.CANCEL)
        await p.finish()


async def test_a_command_of_a_newer_program_is_refused_and_those_after_it_are_carried_out(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted()) as p:
        await p.ledger.commands.ask("teleport", run=p.run.id)
        paused = await p.ledger.commands.ask(Action.PAUSE, run=p.run.id)
        await p.begin()
        await anyio.sleep(1)
        assert (await p.ledger.commands.one(paused)).outcome == "nothing more of it is sent"
        teleport = await p.ledger.commands.one(paused - 1)
        assert teleport.is_refused
        assert "does not know teleport: it may be of an older version" in (teleport.outcome or "")


async def test_what_is_pending_when_a_process_begins_is_carried_out_before_anything_is_sent(tmp_path: Path) -> None:
    transport = Scripted()
    async with process(tmp_path / "db", transport) as p:
        await p.ledger.commands.ask(Action.CANCEL, run=p.run.id)
        await p.begin()
        await p.finish()
        assert transport.of("run") == []


async def test_a_handler_can_be_registered_and_refuses_by_raising(tmp_path: Path) -> None:
    served: list[int | None] = []

    async def serve(command: Command) -> Reply:
        if served:
            raise UsageError("there is no key for its service")
        served.append(command.run)
        return Reply("it is served")

    async with process(tmp_path / "db", Scripted()) as p:
        p.engine.commands.register(Action.SERVE, serve)
        await p.begin()
        assert (await asked(p, Action.SERVE)).outcome == "it is served"
        again = await asked(p, Action.SERVE)
        assert (again.is_refused, again.outcome) == (True, "there is no key for its service")
        assert served == [p.run.id]


async def test_who_asks_while_one_process_takes_the_place_of_another_asks_again(tmp_path: Path) -> None:
    replies = [OF_ANOTHER, Reply("it is served")]

    async def serve(_command: Command) -> Reply:
        return replies.pop(0)

    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=1) as p, anyio.create_task_group() as tasks:
        p.engine.commands.register(Action.SERVE, serve)
        await p.begin()

        async def notice() -> None:
            while True:
                p.engine.commands.on_change()
                await anyio.sleep(0.25)

        tasks.start_soon(notice)
        with dispatcher_lock(file_of(p.ledger.address), now=p.clock.now()):
            acknowledged = await (await followed_run(p.ledger, p.run, SilentConsole())).ask()
        assert (acknowledged.outcome, replies) == ("it is served", [])
        tasks.cancel_scope.cancel()
