"""Results of jobs that had been given up: they were paid for, so they count whenever they come."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from orchestrator.api.foreground.run import run as run_program
from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.client import Service
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice
from orchestrator.core.text.durations import Policy
from orchestrator.engine.collecting.notice_queue import BATCH_MAX
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnExpired, OnUncertain
from tests.api.runs.test_program import Silence
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import Process, process
from tests.engine.rows import empty_ledger
from tests.engine.scripted import CANCELLED, CUT, FAILED, GONE, Reply, Scripted, in_turn, numbered, says
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

S = 1_000_000
FAIL = RunSettings(on_uncertain=OnUncertain.FAIL, on_expired=OnExpired.FAIL, max_attempts=1, retention_us=60 * S)
LATE = says("COMPLETED", "r-1", output="late", delayTime=1, executionTime=2)
SOON = RunSettings(uncertain_after_us=5 * S, max_attempts=1)


async def is_sound(p: Process) -> bool:
    """Whether an audit of the ledger finds nothing."""
    findings = Findings()
    await audit_ledger(p.ledger, findings, lambda *_: None)
    return findings.all() == ()


@pytest.mark.parametrize(
    ("transport", "changes", "given_up"),
    [
        (Scripted(run=CUT), {}, "failed uncertain"),
        (Scripted(status=FAILED), {}, "failed failed"),
        (Scripted(status=CANCELLED), {}, "cancelled cancelled"),
        (Scripted(status=lambda asked: CUT if asked.at_s < 70 else GONE), {}, "failed expired"),
        (Scripted(status=GONE), {"retention_us": 1_800 * S}, "failed lost"),
        (Scripted(status=GONE), {"policy": Policy(ttl_ms=20_000), "retention_us": 1_800 * S}, "failed timed_out"),
    ],
)
async def test_a_result_counts_however_its_job_was_given_up_before(
    tmp_path: Path, transport: Scripted, changes: dict[str, object], given_up: str
) -> None:
    settings = RunSettings(**{**{name: getattr(FAIL, name) for name in FAIL.__struct_fields__}, **changes})
    async with process(tmp_path / "db", transport, webhooks=True, settings=settings) as p:
        await p.begin()
        await p.finish()
        state = (await p.job()).state
        [failure] = await p.failures()
        assert f"{state} {failure.trouble}" == given_up
        if (await p.job()).remote_id is not None:
            await tell(p, await submission_of(p), says("COMPLETED", "r-666", output="of another job"))
            await anyio.sleep(1)
            assert await p.results() == []
        for record in (LATE, FAILED, LATE):
            await tell(p, await submission_of(p), record)
            await anyio.sleep(1)
        [result] = await p.results()
        assert (result.output, result.trouble, result.remote_id) == (b'"late"', None, "r-1")
        assert (await p.failures(), p.progress.unfinished) == ([], 0)
        counts = await p.counts()
        assert (counts["succeeded"], "failed" in counts, "paid_twice" in counts) == (1, False, False)
        assert counts.get("uncertain_seen") == counts.get("uncertain_adopted")
        assert (await p.story())[-1] == "completed"
        assert await is_sound(p)
        assert await p.ledger.jobs.notices.count() == 0


async def test_a_late_failure_changes_nothing(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), webhooks=True, settings=FAIL) as p:
        await p.begin()
        await p.finish()
        before = await p.failures()
        for record in (FAILED, says("TIMED_OUT"), CANCELLED):
            await tell(p, await submission_of(p), record)
            await anyio.sleep(1)
        assert (await p.failures(), (await p.story())[-1]) == (before, "abandoned uncertain")
        assert "paid_twice" not in await p.counts(), "it ran once, for all that is known"


async def uncertain_submissions(p: Process) -> list[int]:
    """The submissions of the first job, which has failed since none was ever answered."""
    await p.begin()
    await p.finish()
    return sorted({event.submission for event in await p.events() if event.submission is not None})


async def test_a_submission_is_paid_twice_only_where_another_one_is_known_to_have_run(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=CUT), webhooks=True, settings=SOON) as p:
        first, second, third, fourth = await uncertain_submissions(p)
        twice: list[int] = []
        for submission, record in [
            (second, says("FAILED", "r-2")),
            (first, LATE),
            (fourth, says("COMPLETED", "r-4", output="too late")),
            (third, says("CANCELLED", "r-3")),
            (fourth, says("FAILED", "r-4")),
        ]:
            await tell(p, submission, record)
            await anyio.sleep(1)
            twice.append((await p.counts()).get("paid_twice", 0))
        assert twice == [0, 1, 2, 2, 2]
        assert p.progress.count("paid_twice") == 2
        assert [result.output for result in await p.results()] == [b'"late"']
        assert await is_sound(p)


async def test_a_result_that_comes_late_is_paid_twice_beside_an_execution_that_failed(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-2")), status=says("FAILED", "r-2", error="boom"))
    async with process(tmp_path / "db", transport, webhooks=True, settings=SOON) as p:
        first, _ = await uncertain_submissions(p)
        assert [failure.trouble for failure in await p.failures()] == ["failed"]
        await tell(p, first, LATE)
        await anyio.sleep(1)
        assert [result.remote_id for result in await p.results()] == ["r-1"]
        assert (await p.counts())["paid_twice"] == p.progress.count("paid_twice") == 1


async def test_a_result_that_comes_while_a_third_execution_waits_for_its_time_is_not_paid_again(tmp_path: Path) -> None:
    transport = Scripted(status=FAILED)
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        for _ in range(2):
            await p.until_event(lambda step: step.event is Event.RETRIED)
        await tell(p, await submission_of(p), LATE)
        await p.finish()
        await anyio.sleep(60)
        assert len(transport.of("retry")) == 1
        assert [result.output for result in await p.results()] == [b'"late"']


async def test_a_repetition_that_is_being_sent_when_the_result_comes_is_cancelled(tmp_path: Path) -> None:
    transport = Scripted(status=FAILED, retry=Reply(after_s=5))
    async with process(tmp_path / "db", transport, webhooks=True) as p:
        await p.begin()
        await p.until_event(lambda step: step.event is Event.RETRIED)
        await p.until_event(lambda step: step.event is Event.CLAIMED)
        await tell(p, await submission_of(p), LATE)
        await p.finish()
        await anyio.sleep(30)
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-1"]
        assert [result.output for result in await p.results()] == [b'"late"']
        assert "paid_twice" not in await p.counts(), "it may be that execution's own result"


# --- a run that is over

JOBS = BATCH_MAX + 1
"""More than are gone through at once."""


async def program(
    folder: Path,
    transport: Scripted,
    clock: VirtualClock,
    *,
    jobs: int = JOBS,
    resumes: bool = False,
    retry_failed: bool = False,
) -> list[str]:
    """One process; returns what it said."""
    empty_ledger(folder / "ledger.db")
    (folder / "in.jsonl").write_text("".join(f'{{"input":{{"n":{n}}}}}\n' for n in range(jobs)))
    request = RunRequest(
        name="in",
        source=None if resumes else str(folder / "in.jsonl"),
        endpoint=ENDPOINT,
        ledger=folder / "ledger.db",
        output=folder / "out.jsonl",
        errors=folder / "errors.jsonl",
        connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        settings=RunSettings(max_attempts=1, breaker=OFF),
        retry_failed=retry_failed,
    )
    around = Dependencies(
        clock=clock,
        environ={},
        service=lambda connection, clock: Service(connection.serverless_url, "key", clock, transport=transport),
        connect=async_creator,
    )
    console = Silence()
    await run_program(request, console, around)
    return console.lines


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("retry_failed", [False, True])
async def test_what_was_noted_as_a_run_ended_is_taken_up_by_the_next_process_before_it_sends_anything(
    tmp_path: Path, retry_failed: bool
) -> None:
    clock, transport = VirtualClock(), Scripted(run=numbered(), status=FAILED)
    await program(tmp_path, transport, clock)
    assert len(lines(tmp_path / "errors.jsonl")) == JOBS
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as db:
        db.execute(
            "INSERT INTO notices (submission_id, received_at, remote_id, status, output, packed)"
            " SELECT id, ?, remote_id, 'COMPLETED', x'31', 0 FROM submissions",
            (clock.now(),),
        )
        db.commit()
    await program(tmp_path, transport, clock, resumes=True, retry_failed=retry_failed)
    assert len(transport.of("run")) == JOBS
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as db:
        events = dict(db.execute("SELECT event, count(*) FROM events GROUP BY event"))
    assert events == dict.fromkeys(("claimed", "accepted", "abandoned", "completed"), JOBS)
    assert [line["output"] for line in lines(tmp_path / "out.jsonl")] == [1] * JOBS
    assert lines(tmp_path / "errors.jsonl") == []


async def test_notices_are_gone_through_to_the_last_one_when_that_is_asked_for(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), webhooks=True, jobs=3) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 3)
        for n in (1, 2, 3):
            record = Record(remote_id=f"r-{n}", status="COMPLETED", output=b"%d" % n)
            await p.ledger.writer.record_notice(
                Notice(submission=await submission_of(p, n), received_at=p.clock.now(), record=record)
            )
        assert await p.ledger.jobs.notices.count() == 3
        p.inbox.look()
        await p.inbox.catch_up()
        assert [result.output for result in await p.results()] == [b"1", b"2", b"3"]
        assert await p.ledger.jobs.notices.count() == 0


async def test_who_begins_goes_through_all_notices_before_anything_else(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), webhooks=True, jobs=3) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 3)
        for n in (1, 2, 3):
            record = Record(remote_id=f"r-{n}", status="COMPLETED", output=b"%d" % n)
            await p.ledger.writer.record_notice(
                Notice(submission=await submission_of(p, n), received_at=p.clock.now(), record=record)
            )
    async with process(tmp_path / "db", Scripted(), clock=p.clock, webhooks=True) as p:
        await p.engine.collect()
        assert [result.output for result in await p.results()] == [b"1", b"2", b"3"]
