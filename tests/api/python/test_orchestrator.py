"""An `Orchestrator`: what it takes in and gives back, joins, leaves, and goes on with."""

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.admin.run_admin import Deleted, Renamed, delete, rename
from orchestrator.api.foreground.run import run as foreground
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.api.python.results import Job, Result
from orchestrator.emulator.jobs.jobs import WorkerResult as Answer
from orchestrator.errors import InputError, LedgerVersionError, StoppedError, StorageError, UsageError
from orchestrator.ledger import dispatcher_lock, read_ledger
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.api.desk import Desk, coming, desk, numbers
from tests.engine.rows import empty_ledger
from tests.simulation.database import async_creator
from tests.simulation.long_work import LongWork
from tests.simulation.loop import running_loop
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def outputs(results: AsyncIterator[Result]) -> list[int]:
    return [result.output["n"] async for result in results]


async def settings_of(d: Desk, name: str) -> RunSettings:
    async with read_ledger(d.ledger, clock=d.clock, connect=async_creator(d.ledger)) as ledger:
        run = await ledger.runs.named(name)
        assert run is not None
        return run.settings


async def test_results_come_as_they_end_or_in_input_order_and_go_on_after_any_of_them(tmp_path: Path) -> None:
    seconds = itertools.cycle([9.0, 1.0, 5.0])
    async with desk(tmp_path, seconds=lambda _: next(seconds)) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(3), endpoint=ENDPOINT, name="captions")
        as_they_end = await outputs(run.results())
        assert as_they_end == [1, 2, 0]
        assert await outputs(run.results(order="input")) == [0, 1, 2]

        found = [result async for result in run.results()]
        assert await outputs(run.results(after=found[0].custom_id)) == as_they_end[1:]
        assert await outputs(run.results(order="input", after=found[0].custom_id)) == [2]
        with pytest.raises(UsageError, match="no job of this custom_id"):
            await outputs(run.results(after="nobody"))

        assert await run.wait() == run.counts
        assert (run.counts["succeeded"], run.counts["total"]) == (3, 3)
        assert repr(run) == "<Run 'captions': 3 of 3 succeeded>"
        [last] = [result for result in found if result.output == {"n": 0}]
        assert (last.raw, last.error, last.attempts, last.state) == (b'{"n":0}', None, 1, "succeeded")
        assert last.execution == timedelta(seconds=9)


async def test_a_result_is_given_within_a_second_of_its_end(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(20), endpoint=ENDPOINT, name="captions")
        async for result in run.results():
            assert d.clock.now() - result.ended_at.timestamp() * 1_000_000 < 1_000_000


async def test_the_first_rows_are_sent_while_later_ones_are_still_to_come(tmp_path: Path) -> None:
    first_result = anyio.Event()

    async def inputs() -> AsyncIterator[dict[str, int]]:
        yield {"n": 1}
        await first_result.wait()
        yield {"n": 2}

    async with desk(tmp_path) as d, d.orchestrator() as orc:
        found = []
        async for result in orc.map(ENDPOINT, inputs(), name="night"):
            found.append(result.output["n"])
            first_result.set()
    assert found == [1, 2]


async def test_the_same_name_goes_on_with_the_same_run_and_pays_for_nothing_twice(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        async with d.orchestrator() as orc:
            await (await orc.submit(numbers(5), endpoint=ENDPOINT, name="captions")).wait()
        async with d.orchestrator() as orc:
            run = await orc.submit(coming(*numbers(7)), name="captions")
            assert await outputs(run.results(order="input")) == list(range(7))
            with pytest.raises(
                UsageError, match=r"is for the endpoint ep at http://service \(.*\); give another name="
            ):
                await orc.submit(numbers(1), endpoint="other", name="captions")
        assert d.service.paid == 7


async def test_the_same_name_goes_on_with_the_settings_that_were_given_last(tmp_path: Path) -> None:
    async with desk(tmp_path, work=lambda *_: Answer(error="bad")) as d, d.orchestrator() as orc:
        await (await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions", max_attempts=1)).wait()
        run = await orc.submit(numbers(2), name="captions", max_attempts=3)
        await run.wait()
        assert [result.attempts async for result in run.results(order="input")] == [1, 3]


async def test_inputs_without_a_name_are_a_new_run_each_time_and_repeated_ones_are_jobs_of_their_own(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        runs = [await orc.submit(coming(*[{"n": 1}] * 3), endpoint=ENDPOINT) for _ in range(2)]
        for run in runs:
            assert await outputs(run.results()) == [1, 1, 1]
        assert runs[0].name.startswith("ep-2")
        assert runs[1].name != runs[0].name
        assert [each.run for each in await orc.status()] == [run.name for run in runs]


async def test_rows_are_appended_behind_those_that_are_there(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(2), endpoint=ENDPOINT, name="captions")
        more = await orc.append("captions", [{"n": 7}, {"n": 1}, Job({"n": 1}, custom_id="again")])
        assert await outputs(more.results(order="input")) == await outputs(run.results(order="input")) == [0, 7, 1, 1]
        assert run.counts["total"] == 4
        with pytest.raises(UsageError, match="no run called 'nobody'"):
            await orc.append("nobody", numbers(1))


async def test_jobs_of_a_higher_priority_are_sent_before_others_of_their_run(tmp_path: Path) -> None:
    async with desk(tmp_path, seconds=lambda _: 1.0, workers=1) as d, d.orchestrator() as orc:
        inputs = [Job({"n": n}, priority=priority) for n, priority in enumerate([0, -1, 10, 0, 1])]
        run = await orc.submit(inputs, endpoint=ENDPOINT, name="captions", all_or_nothing=True)
        assert await outputs(run.results()) == [2, 4, 0, 3, 1]


async def test_a_bad_row_ends_the_input_and_those_before_it_are_sent(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        with pytest.raises(InputError) as refused:
            await orc.submit(coming({"n": 0}, {"n": 1}, ["no dict"], {"n": 3}), endpoint=ENDPOINT, name="captions")
        assert str(refused.value) == (
            "the inputs of 'captions': 1 problem; the 2 rows before are in the run\nrow 3: list, not a dict or a Job"
        )
        assert await outputs((await orc.run("captions")).results()) == [0, 1]


async def test_all_or_nothing_takes_nothing_where_a_row_is_bad_and_names_all_that_are(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        bad = coming({"n": 0}, 1, {"n": float("nan")}, Job({"n": 2}, policy={"ttl": "1s"}))
        with pytest.raises(InputError) as refused:
            await orc.submit(bad, endpoint=ENDPOINT, name="captions", all_or_nothing=True)
        assert str(refused.value).splitlines() == [
            "the inputs of 'captions': 3 problems; nothing was sent",
            "row 2: int, not a dict or a Job",
            "row 3: not JSON: NaN or an infinity is no number there; give None or a text",
            "row 4: ttl=: policy.ttl is 1000 ms; the service takes 10000 (10 s) to 604800000 (7 days)",
        ]
        with pytest.raises(UsageError, match="no run called 'captions'"):
            await orc.run("captions")
        run = await orc.submit(coming(*numbers(3)), endpoint=ENDPOINT, name="captions", all_or_nothing=True)
        assert await outputs(run.results()) == [0, 1, 2]


async def test_what_the_inputs_raise_is_raised_and_the_run_goes_on(tmp_path: Path) -> None:
    class OurError(Exception):
        pass

    async with desk(tmp_path) as d, d.orchestrator() as orc:
        with pytest.raises(OurError):
            await orc.submit(coming(*numbers(2), OurError()), endpoint=ENDPOINT, name="captions")
        with pytest.raises(OurError):
            async for _ in orc.map(ENDPOINT, coming(*numbers(3), OurError()), name="captions"):
                pass
        run = await orc.submit(coming(*numbers(4)), endpoint=ENDPOINT, name="captions")
        assert await outputs(run.results(order="input")) == [0, 1, 2, 3]
    assert d.service.paid == 4


async def failing(orchestrator: Orchestrator) -> None:
    """A loop with a mistake in it."""
    async with orchestrator as orc:
        async for _ in (await orc.run("night")).results():
            1 / 0  # noqa: B018


async def test_a_loop_that_is_left_or_cancelled_leaves_the_run_resumable(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=1) as d:
        with anyio.CancelScope() as scope:
            async with d.orchestrator() as orc, aclosing(orc.map(ENDPOINT, numbers(6), name="night")) as results:
                async for _ in results:
                    scope.cancel()
        with pytest.raises(ZeroDivisionError):
            await failing(d.orchestrator())
        async with d.orchestrator() as orc:
            assert sorted(await outputs((await orc.run("night")).results())) == list(range(6))
        assert d.service.paid == 6


@pytest.mark.slow
async def test_a_second_program_joins_the_first_and_takes_over_when_that_ends(tmp_path: Path) -> None:
    async with desk(tmp_path, workers=1) as d, d.orchestrator() as second_to_be:
        first = second_to_be
        async with d.orchestrator() as second:
            run = await second.submit(coming(*numbers(30)), endpoint=ENDPOINT, name="captions", queue_depth=5)
            results = run.results()
            early = [(await anext(results)).output["n"] for _ in range(3)]
            assert first._session is not None
            first._session.stop()
            began = running_loop().time()
            with anyio.fail_after(600):
                late = await outputs(results)
            assert sorted(early + late) == list(range(30))
            assert running_loop().time() - began > 10, "most was done by the second"
            await run.wait()
        assert d.service.paid == 30


async def test_who_takes_over_makes_no_new_ledger_where_the_one_that_it_follows_is_gone(tmp_path: Path) -> None:
    async def follow(d: Desk, lock: ExitStack) -> None:
        lock.enter_context(dispatcher_lock(d.ledger, now=d.clock.now()))
        async with d.orchestrator():
            d.ledger.unlink()
            lock.close()  # whoever worked has ended because of that
            await anyio.sleep(10)

    async with desk(tmp_path) as d:
        with ExitStack() as lock, pytest.raises(StorageError, match="is not in its place any more"):
            await follow(d, lock)
        assert not d.ledger.exists()


async def test_what_has_failed_is_retried_when_asked_for(tmp_path: Path) -> None:
    tries = itertools.count()
    async with (
        desk(tmp_path, work=lambda raw, _: Answer(error="bad") if next(tries) < 3 else Answer(output=raw)) as d,
        d.orchestrator() as orc,
    ):
        run = await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions", max_attempts=3)
        [failed] = [result async for result in run.results()]
        assert (failed.state, failed.error, failed.error_class) == ("failed", "bad", "failed")
        assert (failed.output, failed.raw, failed.attempts) == (None, None, 3)
        await run.retry()
        await run.wait()
        assert run.counts["succeeded"] == 1


@pytest.mark.slow
async def test_who_comes_while_another_makes_the_ledger_waits_for_that(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, anyio.create_task_group() as group:
        d.ledger.unlink()
        with dispatcher_lock(d.ledger, now=d.clock.now()):

            async def joins() -> None:
                async with d.orchestrator() as orc:
                    assert await orc.status() == []
                    has_joined.set()

            has_joined = anyio.Event()
            group.start_soon(joins)
            await anyio.sleep(5)
            empty_ledger(d.ledger)
            with anyio.fail_after(5):
                await has_joined.wait()


async def test_failures_come_by_kind_and_what_a_filter_means_of_one_is_retried(tmp_path: Path) -> None:
    bad = {0: "CUDA out of memory: 10 MB", 1: "CUDA out of memory: 20 MB", 2: "bad seed"}

    def work(raw: bytes, number: int) -> Answer:
        n = json.loads(raw)["n"]
        return Answer(error=bad[n]) if n in bad and not is_mended else Answer(output=raw)

    is_mended = False
    async with desk(tmp_path, work=work) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(5), endpoint=ENDPOINT, name="captions", max_attempts=1)
        await run.wait()
        kinds = await run.failures(cluster=True)
        assert [(kind.number, kind.count, kind.class_) for kind in kinds] == [(1, 2, "failed"), (2, 1, "failed")]
        assert [failed.error for failed in await run.failures(cluster=False, limit=2)] == [bad[0], bad[1]]

        is_mended = True
        told = await run.retry(where='error~"20"', cluster=1, execution_timeout="30m", max_attempts=2)
        assert told == "1 failed job is queued again, with execution timeout 30 min and 2 attempts"
        await run.wait()
        assert (run.counts["succeeded"], run.counts["failed"]) == (3, 2)
        assert "no such job" in await run.retry(where="class=timed_out", ttl=timedelta(hours=1))
        for wrong, said in ({"where": "colour=red"}, "filter"), ({"cluster": 9}, "kinds"), ({"ttl": 1}, "ttl="):
            with pytest.raises(UsageError, match=said):
                await run.retry(**wrong)
        await run.retry()
        await run.wait()
        assert run.counts["succeeded"] == 5
        assert [(kind.count, kind.retried is not None) for kind in await run.failures()] == [(0, True), (0, True)]


async def test_a_worker_s_error_is_told_in_one_line_and_kept_whole(tmp_path: Path) -> None:
    text = json.dumps({"error_type": "<class 'ValueError'>", "error_message": "bad", "error_traceback": "Trace\nback"})
    async with desk(tmp_path, work=lambda _raw, _number: Answer(error=text)) as d, d.orchestrator() as orc:
        [failed] = [result async for result in orc.map(ENDPOINT, numbers(1), max_attempts=1)]
        assert (failed.error, failed.error_text) == ("ValueError: bad", text)


async def test_a_run_is_paused_and_goes_on_and_is_cancelled(tmp_path: Path) -> None:
    async with desk(tmp_path, seconds=lambda _: 60.0) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions")
        await run.pause()
        await orc.append("captions", numbers(2, first=5))
        with anyio.move_on_after(90):
            await run.wait()
        assert (run.counts["succeeded"], run.counts["queued"]) == (1, 2)
        await run.unpause()
        await anyio.sleep(10)
        await run.cancel()
        await run.wait()
        assert run.counts["cancelled"] == 2
        with pytest.raises(UsageError, match="to be cancelled"):
            await run.retry()


@pytest.mark.slow
async def test_resumable_jobs_say_how_far_they_are_and_are_cancelled_at_a_checkpoint(tmp_path: Path) -> None:
    work = LongWork(work_s=2_000, report_every_s=20, checkpoint_every_s=200)
    async with desk(tmp_path, long_work=work) as d, d.orchestrator() as orc:
        run = await orc.submit(
            numbers(1), endpoint=ENDPOINT, name="training", resumable=True, execution_timeout="3h", progress_every=12
        )
        with anyio.move_on_after(300):
            await run.wait()
        [job] = await run.progress()
        assert (job.segment, job.state, round(job.share or 0, 1)) == (1, "outstanding", 0.1)
        assert 260 < job.executed_s < 320
        at = d.clock.now()
        await run.cancel(grace="1h")
        await run.wait()
        assert 80 < (d.clock.now() - at) / SECOND_US < 140
        assert (run.counts["cancelled"], await run.progress()) == (1, [])
        other = await orc.submit(numbers(1), endpoint=ENDPOINT, name="other")
        for asking in (other.progress(), other.cancel(grace="1h")):
            with pytest.raises(UsageError, match="the jobs of other are not resumable"):
                await asking
        with pytest.raises(UsageError, match="grace="):
            await run.cancel(grace="soon")


async def test_where_going_on_is_pointless_it_says_why_and_what_to_do(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(1), endpoint="unknown", name="captions")
        with pytest.raises(StoppedError, match=r"then go on with run\('captions'\)") as stopped:
            await run.wait()
        assert stopped.value.__cause__ is None
        assert stopped.value.__suppress_context__


async def test_a_mistyped_endpoint_is_mended_by_the_right_one_under_the_same_name(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        mistyped = await orc.submit(numbers(3), endpoint="unknown", name="captions")
        with pytest.raises(StoppedError):
            await mistyped.wait()
        run = await orc.submit(numbers(5), endpoint=ENDPOINT, name="captions")
        await run.wait()
        assert (run.counts["succeeded"], mistyped.counts["succeeded"]) == (5, 5), "it is the same run"
        [told] = await orc.status()
        assert told.endpoint == ENDPOINT
        with pytest.raises(UsageError, match=f"is for the endpoint {ENDPOINT} at .* may have taken a job of it"):
            await orc.submit(numbers(5), endpoint="unknown", name="captions")


@pytest.mark.slow
async def test_resume_gives_a_mistyped_run_its_endpoint_while_another_process_works(tmp_path: Path) -> None:
    async with desk(tmp_path, seconds=lambda _: 60.0) as d, d.orchestrator() as orc:
        other = await orc.submit(numbers(1), endpoint=ENDPOINT, name="other")
        mistyped = await orc.submit(numbers(3), endpoint="unknown", name="captions")
        with pytest.raises(StoppedError):
            await mistyped.wait()
        resumed = partial(
            RunRequest,
            name="captions",
            source=None,
            ledger=d.ledger,
            connection=ConnectionSettings(serverless_url=URL, api_key="k"),
        )
        assert (await foreground(resumed(endpoint=ENDPOINT), None, d.dependencies)).jobs["succeeded"] == 3
        with pytest.raises(UsageError, match=f"is for the endpoint {ENDPOINT} .* may have taken a job of it"):
            await foreground(resumed(endpoint="big"), None, d.dependencies)
        await other.wait()


@pytest.mark.slow
async def test_a_run_is_renamed_and_deleted_while_a_program_serves_it(tmp_path: Path) -> None:
    async with desk(tmp_path, seconds=lambda _: 60.0) as d, d.orchestrator() as orc:
        run = await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions")
        await anyio.sleep(1)
        assert await rename(d.ledger, "captions", "night", d.dependencies) == Renamed(run="night", was="captions")
        with pytest.raises(UsageError, match="jobs of it are at the service, and their results would be lost"):
            await delete(d.ledger, "night", d.dependencies)
        await run.wait()
        assert (run.name, run.counts["succeeded"]) == ("night", 1)
        assert await delete(d.ledger, "night", d.dependencies) == Deleted(run="night", jobs=1)
        with pytest.raises(UsageError, match="there is no such run any more"):
            await run.retry()
        again = await orc.submit(numbers(2), endpoint=ENDPOINT, name="night")
        await again.wait()
        assert again.counts["total"] == 2, "it is another run"


async def test_durations_are_texts_seconds_or_timedeltas_and_none_says_nothing(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator({"ORCHESTRATOR_MAX_ATTEMPTS": "7"}) as orc:
        await orc.submit(
            numbers(1), endpoint=ENDPOINT, name="captions",
            ttl="2h", execution_timeout=90, uncertain_after=timedelta(seconds=2.5), low_priority=True, priority=None,
        )  # fmt: skip
        first = await settings_of(d, "captions")
        assert (first.policy.ttl_ms, first.policy.execution_timeout_ms) == (7_200_000, 90_000)
        assert (first.uncertain_after_us, first.max_attempts, first.policy.low_priority) == (2_500_000, 7, True)

        await orc.submit(numbers(1), name="captions", ttl=None, low_priority=False, max_attempts=2)
        second = await settings_of(d, "captions")
        assert (second.policy.ttl_ms, second.max_attempts, second.policy.low_priority) == (7_200_000, 2, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"ttl": "1s"}, "ttl=: "),
        ({"ttl": True}, "ttl=: "),
        ({"name": " "}, "name=: a run's name has"),
        (
            {"endpoint": "https://x"},
            "https://x is a URL, and what is there has no queue; say how it takes requests, with via=openai or via=http",
        ),
        ({"endpoint": "https://x?key=1"}, "endpoint=: the URL of an endpoint has no query"),
        ({"endpoint": "local:nowhere.py:f"}, "there is no file"),
        ({"inputs": {"n": 1}}, "inputs are an iterable of dicts or Jobs, or the path of a file, not dict"),
        ({"inputs": "nowhere.jsonl"}, "nowhere.jsonl: there is no such file"),
        ({"inputs": 5}, "not int"),
    ],
)
async def test_what_cannot_be_is_refused_in_one_plain_line(
    tmp_path: Path, arguments: dict[str, Any], said: str
) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        with pytest.raises(UsageError) as refused:
            await orc.submit(**{"inputs": numbers(1), "endpoint": ENDPOINT, "name": "captions"} | arguments)
        assert said in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1


async def test_an_option_that_there_is_not_is_a_type_error_that_knows_the_nearest(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        options: dict[str, Any] = {"max_attempt": 3}
        with pytest.raises(TypeError, match="did you mean max_attempts"):
            await orc.submit(numbers(1), endpoint=ENDPOINT, **options)


async def test_without_a_key_nothing_is_sent(tmp_path: Path) -> None:
    async with desk(tmp_path) as d, d.orchestrator(api_key=None) as orc:
        with pytest.raises(UsageError, match="there is no API key for http://service; give api_key="):
            await orc.submit(numbers(1), endpoint=ENDPOINT)


async def test_a_file_is_read_as_the_command_line_reads_it(tmp_path: Path) -> None:
    (tmp_path / "prompts.jsonl").write_text('{"n": 1}\n\n{"n": 2}\n')
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        source = (tmp_path / "prompts.jsonl").read_text().splitlines()
        run = await orc.submit([json.loads(line) for line in source if line], endpoint=ENDPOINT, name="prompts")
        await run.wait()
        same = await orc.submit(tmp_path / "prompts.jsonl")
        await same.wait()
        assert (same.name, same.counts["total"]) == ("prompts", 2)
    assert d.service.paid == 2


async def test_it_works_inside_of_its_block_only(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        orc = d.orchestrator()
        with pytest.raises(UsageError, match="async with"):
            await orc.submit(numbers(1), endpoint=ENDPOINT)
        async with orc:
            run = await orc.submit(numbers(1), endpoint=ENDPOINT, name="captions")
        for late in (run.wait(), outputs(run.results()), run.pause(), orc.run("captions")):
            with pytest.raises(UsageError, match="is closed"):
                await late


async def test_a_ledger_that_cannot_be_opened_says_so_plainly(tmp_path: Path) -> None:
    async with desk(tmp_path) as d:
        d.ledger.write_bytes(b"no ledger " * 500)
        with pytest.raises(Exception, match=r"ledger\.db") as refused:
            async with d.orchestrator():
                pass
        assert not isinstance(refused.value, BaseExceptionGroup)
        assert not isinstance(refused.value, LedgerVersionError)
