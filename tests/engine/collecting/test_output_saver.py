"""Members of outputs become files before their results are written down; what cannot be saved stays, and says why."""

import base64
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.outcomes.audit import Findings, Flaw
from orchestrator.api.outcomes.saved_files_check import check_saved_files
from orchestrator.client.http.link_fetcher import FetchLink
from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.lanes.via import Via
from orchestrator.engine.collecting.output_saver import LINKS_AT_ONCE, WAITING_BYTES_MAX, OutputSaver
from orchestrator.engine.commands.revalidate import Revalidator
from orchestrator.errors import StorageError, Unanswered, UsageError
from orchestrator.ledger.commands.command_types import Action, NewName
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import OnUnsaved
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.commands.test_command_inbox import asked
from tests.engine.process import Process, process, why_blocked
from tests.engine.scripted import FAILED, Reply, Scripted, in_turn, numbered, says
from tests.simulation.database import CommitWatch
from tests.simulation.run import Crash, run, run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

PNG = b"\x89PNG\r\n\x1a\n" * 1_000
SHA = hashlib.sha256(PNG).hexdigest()
SEED = 12345678901234567890
"""More than a program that reads JSON as floating point can keep."""


def image(content: bytes = PNG) -> Reply:
    return says("COMPLETED", output={"image": base64.b64encode(content).decode(), "seed": SEED})


def settings(tmp_path: Path, **more: Any) -> RunSettings:
    return RunSettings(save=SAVE.value_type.read([f"output.image={tmp_path}/out/{{custom_id}}.png"]), **more)


def files(tmp_path: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


async def outputs(p: Process) -> list[Any]:
    return [json.loads(job.output or b"null") for job in await p.results()]


def link(
    *pieces: bytes, why: str = "", error: type[Exception] = Unanswered
) -> Callable[..., AsyncGenerator[bytes, None]]:
    async def fetch(_: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
        for piece in pieces:
            yield piece
        if why:
            raise error(why)

    return fetch


async def test_the_file_is_in_its_place_before_the_step_is_written_and_the_row_tells_of_it(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=image()), settings=settings(tmp_path)) as p:
        await p.begin()
        await p.finish()
        [output] = await outputs(p)
        assert output == {"image": {"file": f"{tmp_path}/out/job-1.png", "bytes": 8_000, "sha256": SHA}, "seed": SEED}
        assert await p.story() == ["claimed", "accepted", "completed"]
    assert files(tmp_path) == {"job-1.png": PNG}


class DiesBeforeTheStep:
    """Kills the process as it is about to write something down while the file is there already."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._crash = Crash()

    def committing(self) -> bool:
        if not self._folder.exists():
            return True
        self._crash.pull()
        return False

    def committed(self) -> None:
        """Nothing happens then."""


def test_killed_between_the_file_and_its_step_it_is_found_again_and_nothing_points_at_nothing(tmp_path: Path) -> None:
    async def life(commits: CommitWatch | None = None) -> list[Any]:
        transport = Scripted(status=image())
        async with process(tmp_path / "db", transport, settings=settings(tmp_path), commits=commits) as p:
            await p.begin()
            await p.finish()
            return await outputs(p)

    crashed_at_s = run_until_crash(partial(life, DiesBeforeTheStep(tmp_path / "out")))
    assert crashed_at_s is not None
    assert files(tmp_path) == {"job-1.png": PNG}
    [output] = run(life, start_s=crashed_at_s)
    assert output["image"]["file"] == f"{tmp_path}/out/job-1.png"
    assert files(tmp_path) == {"job-1.png": PNG}


async def test_the_file_of_another_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "job-1.png").write_bytes(b"somebody's")
    async with process(tmp_path / "db", Scripted(status=image()), settings=settings(tmp_path)) as p:
        await p.begin()
        await p.finish()
        assert [output["image"]["file"] for output in await outputs(p)] == [f"{tmp_path}/out/job-1-2.png"]
    assert files(tmp_path) == {"job-1.png": b"somebody's", "job-1-2.png": PNG}


async def test_a_webhook_and_a_question_about_one_result_make_one_file(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=image()), settings=settings(tmp_path), webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        async with anyio.create_task_group() as both:
            for _ in range(2):
                both.start_soon(tell, p, await submission_of(p), image())
            both.start_soon(p.collector.ask_for, 1, await submission_of(p))
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "completed"]
    assert files(tmp_path) == {"job-1.png": PNG}


async def test_a_result_that_comes_too_late_to_count_makes_no_file(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(), settings=settings(tmp_path), webhooks=True) as p:
        await p.begin()
        await p.until(State.OUTSTANDING)
        submission = await submission_of(p)
        await tell(p, submission, image())
        await p.finish()
        await tell(p, submission, image(b"another"))
        await anyio.sleep(10)
    assert files(tmp_path) == {"job-1.png": PNG}


async def test_the_result_of_a_job_that_was_given_up_makes_one(tmp_path: Path) -> None:
    once = settings(tmp_path, max_attempts=1)
    async with process(tmp_path / "db", Scripted(status=FAILED), settings=once, webhooks=True) as p:
        await p.begin()
        await p.until(State.FAILED)
        await tell(p, await submission_of(p), image())
        await p.until(State.SUCCEEDED)
        assert [output["image"]["bytes"] for output in await outputs(p)] == [len(PNG)]
    assert files(tmp_path) == {"job-1.png": PNG}


async def test_what_a_link_leads_to_is_saved_as_it_comes(tmp_path: Path) -> None:
    found = says("COMPLETED", output={"image": "https://example.org/a.png"})
    pieces = [PNG] * 300
    transport = Scripted(status=found)
    async with process(tmp_path / "db", transport, settings=settings(tmp_path), fetch_link=link(*pieces)) as p:
        await p.begin()
        await p.finish()
        assert [output["image"]["bytes"] for output in await outputs(p)] == [300 * len(PNG)]
    assert files(tmp_path) == {"job-1.png": b"".join(pieces)}


LINK = "https://example.org/a.png"
SEVERAL = 64


@pytest.mark.parametrize(
    ("member", "output", "rows"),
    [
        ("output.images.*={}/out/{{custom_id}}-{{n}}.png", {"images": [LINK] * SEVERAL}, 1),
        ("output.image={}/out/{{custom_id}}.png", [{"image": LINK}] * SEVERAL, SEVERAL),  # a chunk
    ],
)
async def test_links_of_one_execution_are_fetched_beside_one_another_but_not_all_at_once(
    tmp_path: Path, member: str, output: object, rows: int
) -> None:
    under_way: list[int] = []
    fetched_at: list[float] = []

    async def slow(_: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
        under_way.append(under_way[-1] + 1 if under_way else 1)
        await anyio.sleep(0.1)
        fetched_at.append(anyio.current_time())
        under_way.append(under_way[-1] - 1)
        yield PNG

    chunk = ChunkTerms(rows=rows) if rows > 1 else None
    several = RunSettings(save=SAVE.value_type.read([member.format(tmp_path)]), chunk=chunk)
    transport = Scripted(run=says("IN_QUEUE", "r-1"), status=says("COMPLETED", "r-1", output=output))
    async with process(tmp_path / "db", transport, jobs=rows, settings=several, fetch_link=slow) as p:
        await p.begin()
        await p.finish()
        assert await p.counts() == {"succeeded": rows}
    assert len(files(tmp_path)) == SEVERAL
    assert max(under_way) == LINKS_AT_ONCE
    assert max(fetched_at) - min(fetched_at) < 0.1 * SEVERAL / LINKS_AT_ONCE


@pytest.mark.parametrize(("ending", "expected"), [("png", False), ("html", True)])
async def test_a_page_is_wanted_where_the_file_is_to_be_called_one(tmp_path: Path, ending: str, expected: bool) -> None:
    wanted: list[bool] = []

    async def fetch(_: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
        wanted.append(pages)
        yield PNG

    save = SAVE.value_type.read([f"output.image={tmp_path}/out/{{custom_id}}.{ending}"])
    transport = Scripted(status=says("COMPLETED", output={"image": "https://example.org/a"}))
    async with process(tmp_path / "db", transport, settings=RunSettings(save=save), fetch_link=fetch) as p:
        await p.begin()
        await p.finish()
    assert wanted == [expected]


@pytest.mark.parametrize(
    ("value", "fetch", "why"),
    [
        ("https://example.org/a.png", link(b"half", why="example.org answered 404"), "example.org answered 404"),
        ("not base 64!", link(), "it is neither Base64, a data URL nor a link"),
        (7, link(), "it is no text"),
        ({"file": "/etc/passwd", "bytes": 1, "sha256": ""}, link(), "it is no text"),
    ],
)
async def test_what_cannot_be_saved_stays_in_its_row_and_says_why(
    tmp_path: Path, value: object, fetch: Callable[..., AsyncGenerator[bytes, None]], why: str
) -> None:
    found = says("COMPLETED", output={"image": value})
    transport = Scripted(status=found)
    async with process(tmp_path / "db", transport, jobs=3, settings=settings(tmp_path), fetch_link=fetch) as p:
        await p.begin()
        await p.finish()
        assert await outputs(p) == [{"image": {"value": value, "unsaved": why}}] * 3
        assert len(p.warnings) == 1
        assert f"output.image could not be saved: {why}" in p.warnings[0]
    assert not (tmp_path / "out").exists() or files(tmp_path) == {}


async def test_where_it_is_asked_for_such_a_job_has_failed_and_is_tried_again(tmp_path: Path) -> None:
    strict = settings(tmp_path, on_unsaved=OnUnsaved.FAIL, max_attempts=2)
    broken = says("COMPLETED", output={"image": "not base 64!"})
    async with process(tmp_path / "db", Scripted(status=in_turn(broken, broken)), settings=strict) as p:
        await p.begin()
        await p.finish()
        [failure] = await p.failures()
        assert (failure.trouble, failure.attempts) == ("invalid_output", 2)
        assert failure.output == b'{"image":"not base 64!"}'
        assert p.warnings == []
        assert "output.image could not be saved" in (failure.message or "")


async def test_a_disk_that_takes_no_files_stops_the_sending_and_outputs_are_kept_whole(tmp_path: Path) -> None:
    (tmp_path / "out").touch()  # where a folder would be
    few = settings(tmp_path, on_unsaved=OnUnsaved.FAIL, queue_depth=1)
    async with process(tmp_path / "db", Scripted(status=image()), jobs=5, settings=few) as p:
        await p.begin()
        await p.until(State.SUCCEEDED)
        await anyio.sleep(600)
        found = await outputs(p)
        assert {base64.b64decode(each["image"]["value"]) for each in found} == {PNG}
        assert {each["image"]["unsaved"] for each in found} == {"File exists"}
        assert await p.counts() == {"succeeded": len(found), "queued": 5 - len(found), "unsaved_for_disk": len(found)}
        assert "File exists: outputs are kept whole in the ledger" in (why_blocked(p.endpoint, p.run.id) or "")


async def test_the_next_process_saves_first_what_the_disk_did_not_take(tmp_path: Path) -> None:
    (tmp_path / "out").touch()  # where a folder would be
    few = settings(tmp_path, queue_depth=1)
    missing = says("COMPLETED", output={"image": "not base 64!"})
    script = lambda asked: missing if asked.remote_id == "r-2" else image()  # noqa: E731
    async with process(tmp_path / "db", Scripted(run=numbered(), status=script), jobs=4, settings=few) as p:
        await p.begin()
        await p.until(State.SUCCEEDED)
    async with process(tmp_path / "db", Scripted(run=numbered(), status=script), settings=few) as p:
        for is_mended in (False, True):
            if is_mended:
                (tmp_path / "out").unlink()
            await p.engine.host.send(p.run)
            assert (p.progress.count("unsaved_for_disk") > 0) is not is_mended
            assert ("File exists" in (why_blocked(p.endpoint, p.run.id) or "")) is not is_mended
        await p.begin()
        await p.finish()
        saved = [output["image"].get("file") for output in await outputs(p)]
        assert saved == [f"{tmp_path}/out/job-{n}.png" if n != 2 else None for n in range(1, 5)]
        assert await p.counts() == {"succeeded": 4, "unsaved": 1}
    assert sorted(files(tmp_path)) == ["job-1.png", "job-3.png", "job-4.png"]


async def test_while_much_waits_to_be_saved_no_more_is_collected(tmp_path: Path) -> None:
    go_on = anyio.Event()

    async def slow(_: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
        await go_on.wait()
        yield PNG

    async with process(tmp_path / "db", Scripted(), settings=settings(tmp_path)) as p:
        saver = OutputSaver(p.ledger, p.settings, p.warnings.append, slow)
        job = Job(id=1, run=p.run.id, endpoint=1, state=State.OUTSTANDING)
        large = json.dumps({"image": "https://example.org/", "rest": "x" * WAITING_BYTES_MAX}).encode()
        came: list[str] = []

        async def wait_for_room() -> None:
            await saver.room()
            came.append("room")

        async with anyio.create_task_group() as group:
            group.start_soon(saver.saved, job, large)
            await anyio.sleep(1)
            group.start_soon(wait_for_room)
            await anyio.sleep(60)
            assert came == []
            go_on.set()
        assert came == ["room"]


async def test_verify_reads_each_file_again_and_outputs_are_not_judged_as_they_are_by_now(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=image()), jobs=3, settings=settings(tmp_path)) as p:
        await p.begin()
        await p.finish()
        findings = Findings()
        assert await check_saved_files(p.ledger, findings, lambda *_: None) == 3
        assert findings.all() == ()
        (tmp_path / "out" / "job-1.png").unlink()
        (tmp_path / "out" / "job-2.png").write_bytes(b"x" * len(PNG))
        await check_saved_files(p.ledger, findings, lambda *_: None)
        [found] = findings.all()
        assert (found.kind, found.count) == (Flaw.SAVED, 2)
        assert found.examples[0] == f"{tmp_path}/out/job-1.png of job-1 is not there"
        rechecker = Revalidator(ledger=p.ledger, validators=p.engine.endpoints.validators, settings_of=p.settings)
        with pytest.raises(UsageError, match="cannot be judged again"):
            await rechecker.recheck(p.run, p.settings[p.run.id])


async def test_a_lane_whose_answer_is_the_result_saves_it_too(tmp_path: Path) -> None:
    answer = says("COMPLETED", "r-1-sync", output={"image": base64.b64encode(PNG).decode()})
    sync = settings(tmp_path, via=Via.SYNC)
    async with process(tmp_path / "db", Scripted(runsync=answer), settings=sync) as p:
        await p.begin()
        await p.finish()
        assert [output["image"]["bytes"] for output in await outputs(p)] == [len(PNG)]
    assert files(tmp_path) == {"job-1.png": PNG}


async def dribbling(_: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
    while True:
        await anyio.sleep(20)
        yield b"x"


async def test_a_stop_waits_for_no_slow_link_of_an_answer_and_it_is_fetched_at_the_next_start(tmp_path: Path) -> None:
    answer = says("COMPLETED", "r-1-sync", output={"image": "https://example.org/a.png", "seed": SEED})
    strict = settings(tmp_path, via=Via.SYNC, on_unsaved=OnUnsaved.FAIL)
    transport = Scripted(runsync=answer)
    async with process(tmp_path / "db", transport, settings=strict, fetch_link=dribbling) as p:
        await p.begin()
        await anyio.sleep(60)
        assert await p.counts() == {"submitting": 1}
        stopped_at = anyio.current_time()
    assert anyio.current_time() - stopped_at < 1
    async with process(tmp_path / "db", transport, settings=strict, fetch_link=link(PNG)) as p:
        await p.engine.host.send(p.run)
        assert await p.counts() == {"succeeded": 1}
        assert [output["image"]["bytes"] for output in await outputs(p)] == [len(PNG)]
        assert await p.story() == ["claimed", "completed"]
    assert files(tmp_path) == {"job-1.png": PNG}


@asynccontextmanager
async def asked_to_serve_what_has_a_link(tmp_path: Path, fetch: FetchLink) -> AsyncIterator[Process]:
    """A process that is asked to serve a run of which a result waits for its file, which is at a link."""
    answer = says("COMPLETED", "r-1-sync", output={"image": "https://example.org/a.png"})
    its = settings(tmp_path, via=Via.SYNC)
    transport = Scripted(runsync=answer)
    async with process(tmp_path / "db", transport, settings=its, fetch_link=dribbling) as p:
        await p.begin()
        await anyio.sleep(60)
    async with process(tmp_path / "db", transport, settings=its, fetch_link=fetch) as p:
        await p.engine.collect()
        await p.engine.keep_up()
        assert (await asked(p, Action.SERVE)).outcome == "it is served"
        yield p


async def test_no_command_waits_until_the_files_of_a_run_are_made_and_it_is_not_over_before(tmp_path: Path) -> None:
    go_on = anyio.Event()

    async def held(_: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
        await go_on.wait()
        yield PNG

    async with asked_to_serve_what_has_a_link(tmp_path, held) as p:
        assert (await asked(p, Action.SERVE)).outcome == "it is served", "also where it is asked again meanwhile"
        assert (await asked(p, Action.RENAME, NewName("other"))).outcome == "it is called other"
        assert p.engine.report().of(p.run.id).is_saving
        assert p.progress.unfinished == 0
        assert not p.session.is_over
        assert not p.session.sends
        go_on.set()
        await p.wait(lambda: p.session.is_over)
        await p.wait(lambda: p.session.sends)
        assert await p.counts() == {"succeeded": 1}
    assert files(tmp_path) == {"job-1.png": PNG}


async def test_of_a_run_that_is_released_no_more_files_are_made_first_until_it_is_served_again(tmp_path: Path) -> None:
    fetched: list[str] = []

    async def slow(url: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
        fetched.append(url)
        await anyio.sleep(20)
        yield PNG

    async with asked_to_serve_what_has_a_link(tmp_path, slow) as p:
        assert (await asked(p, Action.RELEASE)).outcome == "no more of it is sent"
        assert p.session.is_over
        await anyio.sleep(60)
        assert not files(tmp_path)
        assert not p.session.sends
        await asked(p, Action.SERVE)
        await p.wait(lambda: p.session.sends)
        assert len(fetched) == 2
    assert files(tmp_path) == {"job-1.png": PNG}


async def test_where_the_ledger_fails_meanwhile_the_run_is_held_and_tried_again(tmp_path: Path) -> None:
    calls: list[str] = []

    async def failing(
        url: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool
    ) -> AsyncGenerator[bytes, None]:
        calls.append(url)
        if len(calls) == 1:
            raise StorageError("the disk is full")
        yield PNG

    async with asked_to_serve_what_has_a_link(tmp_path, failing) as p:
        await p.wait(lambda: not p.session.is_saving)
        assert p.engine.runs.unservable[p.run.id].why == "the disk is full"
        await p.engine.host.retry_unservable()
        await p.wait(lambda: p.session.sends)
        assert not p.engine.runs.unservable
    assert files(tmp_path) == {"job-1.png": PNG}


FORGED: dict[str, Any] = {"bytes": 8_000, "sha256": SHA}


async def test_what_a_worker_writes_is_no_file_that_was_saved_whatever_it_looks_like(tmp_path: Path) -> None:
    """Neither where files are made later nor where they are verified: a worker could name any file of ours."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.png").write_bytes(PNG)
    forged = [{**FORGED, "file": file} for file in (f"{tmp_path}/out/mine.png", "/etc/passwd", "ftp://x/y", "")]
    output = {"image": forged[0], "images": [base64.b64encode(PNG).decode(), *forged], "seed": SEED}
    async with process(tmp_path / "db", Scripted(status=says("COMPLETED", output=output))) as p:
        await p.begin()
        await p.finish()
        rules = ("output.image=out/{custom_id}.png", "output.images.*=out/{custom_id}-{n}.png")
        rules_here = SAVE.value_type.read([rule.replace("out/", f"{tmp_path}/out/") for rule in rules])
        saver = OutputSaver(p.ledger, {p.run.id: RunSettings(save=rules_here)}, p.warnings.append, link())
        for saved in (0, 0):
            assert await saver.save_all(p.run.id) == (saved, 1, None)
            [found] = await outputs(p)
            unsaved = [{"value": each, "unsaved": "it is no text"} for each in forged]
            assert found == {
                "image": unsaved[0],
                "images": [{"file": f"{tmp_path}/out/job-1-1.png", **FORGED}, *unsaved],
                "seed": SEED,
            }
            findings = Findings()
            assert await check_saved_files(p.ledger, findings, lambda *_: None) == 1
            assert findings.all() == ()
    assert files(tmp_path) == {"mine.png": PNG, "job-1-1.png": PNG}


async def test_where_the_ledger_takes_no_more_while_files_are_made_later_that_is_what_is_said(tmp_path: Path) -> None:
    found, full = says("COMPLETED", output={"image": "https://example.org/a.png"}), link(why="full", error=StorageError)
    async with process(tmp_path / "db", Scripted(status=found), jobs=2) as p:
        await p.begin()
        await p.finish()
        saver = OutputSaver(p.ledger, {p.run.id: settings(tmp_path)}, p.warnings.append, full)
        with pytest.raises(StorageError, match="full"):
            await saver.save_all(p.run.id)
