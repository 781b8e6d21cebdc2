import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.emulator.jobs.jobs import JobExecution, WorkerResult
from orchestrator.emulator.workers.handler_call import run_handler
from orchestrator.emulator.workers.handlers import (
    Handler,
    HandlerInput,
    ReportKind,
    load_handler,
    progress_update,
)
from orchestrator.errors import UsageError

pytestmark = pytest.mark.anyio


def execution(raw_input: bytes = b'{"n":1}', s3_config: bytes | None = None) -> JobExecution:
    return JobExecution(
        endpoint="ep", job_id="j1", number=1, worker_id="w1", input=raw_input, s3_config=s3_config, silent=False
    )


class Reports:
    """Notes what a handler says before its end; `awaited` False stops a generator."""

    def __init__(self, *, awaited: bool = True) -> None:
        self.said: list[bytes] = []
        self.awaited = awaited

    def __call__(self, _kind: ReportKind, output: bytes) -> bool:
        self.said.append(output)
        return self.awaited


async def run(handler: Handler, given: JobExecution | None = None) -> WorkerResult:
    return await run_handler(handler, given or execution(), anyio.CapacityLimiter(1), Reports())


async def test_a_plain_handler_is_given_the_job_and_runs_in_a_thread() -> None:
    def handler(job: HandlerInput) -> object:
        return [job, threading.current_thread() is threading.main_thread()]

    result = await run(handler, execution(s3_config=b'{"bucketName":"b"}'))
    job = {"id": "j1", "input": {"n": 1}, "s3Config": {"bucketName": "b"}}
    assert json.loads(result.output or b"") == [job, False]


async def test_an_async_handler_is_awaited() -> None:
    async def handler(job: HandlerInput) -> object:
        await anyio.lowlevel.checkpoint()
        return job["input"]

    assert await run(handler) == WorkerResult(output=b'{"n": 1}')


async def test_an_awaitable_from_a_plain_handler_is_awaited_too() -> None:
    async def answer() -> str:
        return "late"

    assert await run(lambda _: answer()) == WorkerResult(output=b'"late"')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("é", WorkerResult(output='"é"'.encode())),
        (None, WorkerResult(output=b"null")),
        ([1], WorkerResult(output=b"[1]")),
        ({}, WorkerResult()),
        ({"error": "x"}, WorkerResult(error="x")),
        ({"error": "x", "p": 1}, WorkerResult(output=b'{"p": 1}', error="x")),
        ({"error": "", "p": 1}, WorkerResult(output=b'{"p": 1}')),
        ({"error": "\ud800"}, WorkerResult(error="?")),
        ({"error": {"code": 5}}, WorkerResult()),
    ],
)
async def test_return_values_become_what_the_official_worker_reports(value: object, expected: WorkerResult) -> None:
    assert await run(lambda _: value) == expected


async def test_the_handlers_own_dictionary_is_left_alone() -> None:
    value = {"error": "x", "p": 1}
    await run(lambda _: value)
    assert value == {"error": "x", "p": 1}


def circle() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


@pytest.mark.parametrize("value", [{1, 2}, object(), float("nan"), "\ud800", circle(), (n for n in range(3))])
async def test_a_value_that_is_not_json_fails_the_job_and_says_so(value: object) -> None:
    error = json.loads((await run(lambda _: value)).error or "")
    assert "the handler's return value is not JSON" in error["error_message"]


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this")


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), UnprintableError()])
@pytest.mark.parametrize("is_async_handler", [False, True])
async def test_whatever_a_handler_raises_is_a_failure_described_in_json(
    error: BaseException, is_async_handler: bool
) -> None:
    def plain(job: HandlerInput) -> object:
        raise error

    async def awaited(job: HandlerInput) -> object:
        raise error

    document = json.loads((await run(awaited if is_async_handler else plain)).error or "")
    assert document["error_type"] == str(type(error))
    assert document["worker_id"] == "w1"
    assert set(document) == {"error_type", "error_message", "error_traceback", "hostname", "worker_id"}


async def test_a_stray_cancellation_of_the_handlers_own_is_its_failure() -> None:
    async def handler(job: HandlerInput) -> object:
        raise anyio.get_cancelled_exc_class()

    assert "CancelledError" in ((await run(handler)).error or "")


async def test_an_input_that_cannot_be_decoded_fails_the_job() -> None:
    assert (await run(lambda _: 1, execution(b'{"a":"\\ud800"}'))).error is not None


async def test_a_plain_handler_is_left_behind_when_its_execution_is_cancelled() -> None:
    release, began = threading.Event(), anyio.Event()

    def handler(job: HandlerInput) -> object:
        anyio.from_thread.run_sync(began.set)
        release.wait()
        return "nobody hears this"

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, handler)
            await began.wait()
            tasks.cancel_scope.cancel()
    finally:
        release.set()


GOOD = """
from dataclasses import dataclass
import neighbour

@dataclass
class Reply:
    text: str

def handler(job):
    return Reply(neighbour.NAME).text

number = 5

if __name__ == "__main__":
    raise SystemExit("must not start a worker")
"""


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "neighbour.py").write_text("NAME = 'next door'")
    (tmp_path / "broken.py").write_text("import does_not_exist_anywhere")
    (tmp_path / "exits.py").write_text("raise SystemExit(1)")
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    (tmp_path / "notes.txt").write_text("not Python")
    return tmp_path


async def test_a_handler_is_loaded_from_its_file_with_its_neighbours(folder: Path) -> None:
    reference = f"{folder / 'good.py'}:handler"
    assert (await run(load_handler(reference))).output == b'"next door"'
    assert (await run(load_handler(reference))).output == b'"next door"'


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("good.py", "write it as FILE.py:FUNCTION"),
        ("good.py:", "write it as FILE.py:FUNCTION"),
        (":handler", "write it as FILE.py:FUNCTION"),
        ("missing.py:handler", "there is no file"),
        ("good.py:missing", "defines no missing"),
        ("good.py:number", "number is not a function"),
        ("broken.py:handler", "ModuleNotFoundError: No module named 'does_not_exist_anywhere'"),
        ("exits.py:handler", "SystemExit: 1"),
        ("notes.txt:handler", "is not a Python file"),
    ],
)
async def test_a_handler_that_cannot_be_had_is_a_usage_error(folder: Path, reference: str, message: str) -> None:
    file, _, name = reference.partition(":")
    full = f"{folder / file if file else ''}{reference[len(file) :]}"
    with pytest.raises(UsageError) as caught:
        load_handler(full)
    assert message in str(caught.value)
    assert name is not None


def test_ctrl_c_while_a_handler_is_imported_is_not_an_import_error(folder: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_handler(f"{folder / 'interrupted.py'}:handler")


def numbers(job: HandlerInput) -> Iterator[object]:
    progress_update(job, "begun")
    yield from range(job["input"]["n"])
    yield {"error": "out of numbers"}


async def test_a_plain_generator_streams_from_its_thread_until_it_yields_an_error() -> None:
    report = Reports()
    result = await run_handler(numbers, execution(b'{"n":2}'), anyio.CapacityLimiter(1), report)
    assert (result, report.said) == (WorkerResult(error="out of numbers"), [b'"begun"', b"0", b"1"])


async def test_a_generator_that_nobody_waits_for_ends_at_its_next_chunk() -> None:
    report = Reports(awaited=False)
    await run_handler(numbers, execution(b'{"n":9}'), anyio.CapacityLimiter(1), report)
    assert report.said == [b'"begun"', b"0"]


async def test_an_aggregating_generator_has_its_chunks_as_output() -> None:
    def letters(_: HandlerInput) -> Iterator[object]:
        yield from "ab"

    letters.return_aggregate_stream = True  # type: ignore[attr-defined]
    assert await run(letters) == WorkerResult(output=b'["a", "b"]')


def test_progress_needs_the_handlers_own_job() -> None:
    with pytest.raises(UsageError):
        progress_update({"id": "x"}, 1)
