"""Records of other jobs: in answers, in webhooks, and ids that the service gives twice."""

import itertools
import json
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.deadlines import WEBHOOK_SLACK_US
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.outcomes import OF_ANOTHER, SAME_ID, WEBHOOK_OF_ANOTHER
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUncertain
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import Process, process
from tests.engine.scripted import CANCELLED, COMPLETED, CUT, FAILED, Asked, Reply, Scripted, in_turn, numbered, says

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

SECOND = 1_000_000
JOBS = 100


def result_of(remote_id: str) -> Reply:
    return says("COMPLETED", remote_id, output=remote_id)


async def wrong_rows(p: Process) -> list[str]:
    """The results that are of another job than theirs."""
    return [job.custom_id for job in await p.results() if job.output != f'"r-{job.line}"'.encode()]


def told(p: Process, why: str) -> int:
    return sum(warning.startswith(why) for warning in p.warnings)


async def test_the_record_of_another_job_is_never_taken_for_the_one_that_was_asked_for(tmp_path: Path) -> None:
    turns = itertools.count()

    def status(asked: Asked) -> Reply:
        is_swapped = next(turns) % 4 == 0
        n = int(asked.remote_id[2:])
        return result_of(f"r-{n % JOBS + 1}" if is_swapped else asked.remote_id)

    transport = Scripted(run=numbered(), status=status)
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await p.finish()
        assert await wrong_rows(p) == []
        counts = await p.counts()
        assert counts == {"succeeded": JOBS, "no_news": len(transport.of("status")) - JOBS}
        assert counts["no_news"] >= 20
        assert len(transport.of("run")) == JOBS
        assert told(p, OF_ANOTHER) == 1


@pytest.mark.parametrize("other", ["r-1 ", "../r-1", 1, ["r-1"]])
async def test_an_id_that_is_none_is_not_taken_for_the_right_one(tmp_path: Path, other: object) -> None:
    body = json.dumps({"id": other, "status": "COMPLETED", "output": "other"}).encode()
    async with process(tmp_path / "db", Scripted(status=in_turn(Reply(body=body), COMPLETED))) as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [b'{"ok":1}']


async def test_webhooks_with_the_records_of_other_jobs_change_nothing_and_are_counted(tmp_path: Path) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: result_of(asked.remote_id))
    async with process(tmp_path / "db", transport, jobs=3, webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING, 3)
        for n, other in ((1, 2), (2, 3), (3, 1)):
            assert await tell(p, await submission_of(p, n), result_of(f"r-{other}")) == 200
        await p.finish()
        assert await wrong_rows(p) == []
        assert len(transport.of("status")) == 3, "each is a hint to ask"
        await anyio.sleep(1)
        assert await p.counts() == {"succeeded": 3, "no_news": 3}
        assert told(p, WEBHOOK_OF_ANOTHER) == 1


async def test_a_webhook_that_comes_before_the_answer_waits_for_it_and_for_the_id_that_it_gives(tmp_path: Path) -> None:
    transport = Scripted(
        run=lambda asked: numbered()(asked)._replace(after_s=5), status=lambda asked: result_of(asked.remote_id)
    )
    async with process(tmp_path / "db", transport, jobs=2, webhooks=True) as p:
        await p.begin()
        await p.until(State.SUBMITTING, 2)
        await tell(p, await submission_of(p, 1), result_of("r-2"))  # nobody knows yet which job that is
        await tell(p, await submission_of(p, 2), result_of("r-2"))
        await anyio.sleep(2)
        assert p.progress.count(State.SUBMITTING) == 2
        await p.finish()
        assert await wrong_rows(p) == []
        assert await p.counts() == {"succeeded": 2, "no_news": 1}


async def test_an_uncertain_submission_is_not_adopted_by_the_record_of_another_job(tmp_path: Path) -> None:
    transport = Scripted(run=lambda asked: CUT if b'"n":2' in asked.body else numbered()(asked))
    settings = RunSettings(on_uncertain=OnUncertain.FAIL, uncertain_after_us=60 * SECOND)
    async with process(tmp_path / "db", transport, jobs=2, webhooks=True, settings=settings) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p, 1), result_of("r-1"))
        await p.until(State.SUCCEEDED)
        await tell(p, await submission_of(p, 2), result_of("r-1"))
        await anyio.sleep(5)
        assert (await p.job(2)).state is State.UNCERTAIN
        await tell(p, await submission_of(p, 2), result_of("r-2"))
        await p.finish()
        assert await wrong_rows(p) == []


async def test_what_an_earlier_process_has_outstanding_is_known_by_its_id(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(run=numbered()), jobs=2) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING, 2)
    async with process(tmp_path / "db", Scripted()) as p:
        await p.begin()
        assert (p.endpoint.remote_ids.owner("r-1"), p.endpoint.remote_ids.owner("r-2")) == (1, 2)


async def test_an_id_that_another_job_has_is_no_usable_id(tmp_path: Path) -> None:
    seconds = itertools.count(1)

    def run(asked: Asked) -> Reply:
        is_second = json.loads(asked.body)["input"]["n"] == 2
        return says("IN_QUEUE", "r-1") if is_second and next(seconds) == 1 else numbered()(asked)

    transport = Scripted(run=run, status=lambda asked: result_of(asked.remote_id))
    async with process(tmp_path / "db", transport, jobs=4) as p:
        await p.begin()
        await p.finish()
        assert await wrong_rows(p) == []
        counts = await p.counts()
        assert (counts["uncertain_seen"], counts["no_news"]) == (1, 1)
        assert (await p.story(2))[:3] == ["claimed", "unanswered uncertain", "retried uncertain"]
        assert told(p, SAME_ID) == 1


async def test_the_id_of_a_job_that_is_done_is_no_other_ones_in_the_next_process_either(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        return result_of(asked.remote_id)

    async with process(tmp_path / "db", Scripted(run=numbered(), status=status), name="first") as p:
        await p.begin()
        await p.finish()
    run = in_turn(says("IN_QUEUE", "r-1"), says("IN_QUEUE", "r-2"))
    async with process(tmp_path / "db", Scripted(run=run, status=status), name="second") as p:
        await p.begin()
        await p.finish()
        assert [result.output for result in await p.results()] == [b'"r-2"']
        assert told(p, SAME_ID) == 1


async def test_a_service_that_gives_every_job_the_same_id_is_not_sent_the_whole_queue(tmp_path: Path) -> None:
    transport = Scripted(run=says("IN_QUEUE", "r-1"))
    async with process(tmp_path / "db", transport, jobs=1_000) as p:
        await p.begin()
        await anyio.sleep(60)
        assert len(transport.of("run")) < 60
        assert p.progress.count(State.OUTSTANDING) == 1


async def test_a_retry_that_is_answered_with_another_job_is_unanswered(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(FAILED, COMPLETED), retry=says("IN_QUEUE", "r-9"))
    async with process(tmp_path / "db", transport) as p:
        await p.begin()
        await p.finish()
        assert "retry unanswered" in [event.reason for event in await p.events()]
        assert len(await p.results()) == 1


async def test_a_cancel_that_is_answered_with_another_job_is_owed_still(tmp_path: Path) -> None:
    transport = Scripted(run=in_turn(CUT, says("IN_QUEUE", "r-2")), cancel=in_turn(says("CANCELLED", "r-9"), CANCELLED))
    settings = RunSettings(uncertain_after_us=5 * SECOND)
    async with process(tmp_path / "db", transport, webhooks=True, settings=settings) as p:
        await p.begin()
        await p.until(State.UNCERTAIN)
        first = await submission_of(p)
        await p.until(State.OUTSTANDING)
        await tell(p, first, result_of("r-1"))
        await p.finish()
        await anyio.sleep(30)
        assert [asked.remote_id for asked in transport.of("cancel")] == ["r-2", "r-2"]


@pytest.mark.parametrize(
    ("are_repeated", "comes_after_s", "output"),
    [(True, 5, b'"r-1"'), (True, None, b'"of another"'), (False, 5, b'"r-1"'), (False, None, b'"of another"')],
    ids=["comes", "is lost", "is in doubt and comes", "is in doubt and is lost"],
)
async def test_where_ids_are_given_twice_an_answer_waits_for_the_webhook_a_while(
    tmp_path: Path, are_repeated: bool, comes_after_s: float | None, output: bytes
) -> None:
    transport = Scripted(run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, output="of another"))
    async with process(tmp_path / "db", transport, jobs=1, webhooks=True) as p:
        ids = p.endpoint.remote_ids
        if are_repeated:
            assert ids.give("r-9", 98)
            assert not ids.give("r-9", 99)
        await p.begin()
        await p.until(State.OUTSTANDING)
        if not are_repeated:
            assert ids.contradict("r-1", 99, None), "a webhook of a job whose answer was lost bore this one's id"
        p.endpoint.outstanding.hint(1)
        await anyio.sleep(comes_after_s or WEBHOOK_SLACK_US / SECOND - 1)
        assert transport.of("status")
        assert p.progress.count(State.OUTSTANDING) == 1
        if comes_after_s is not None:
            await tell(p, await submission_of(p, 1), result_of("r-1"))
        await p.finish()
        [found] = await p.results()
        assert found.output == output
