"""Plain handlers in processes: results, chunks, progress, crashes, and executions that are stopped."""

import functools
import io
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import msgspec
import pytest

from orchestrator import emulator
from orchestrator.emulator import ServedEmulator
from orchestrator.emulator.jobs.jobs import JobExecution, WorkerResult
from orchestrator.emulator.pytest_fixture import emulated_service
from orchestrator.emulator.workers.handler_pool import HandlerPool
from orchestrator.emulator.workers.handler_process import (
    EndedMessage,
    FunctionLocation,
    Message,
    ReportMessage,
    find,
    frame,
    location_of,
    serve_executions,
)
from orchestrator.emulator.workers.handlers import Handler, ReportKind, load_handler
from orchestrator.errors import UsageError
from tests.emulator.process_handlers import act, count, later

__all__ = ["emulated_service"]

pytestmark = pytest.mark.anyio

PATIENCE_S = 60


class Reports:
    """What was said of an execution before its end."""

    def __init__(self) -> None:
        self.said: list[bytes] = []
        self.spoken = anyio.Event()

    def __call__(self, kind: ReportKind, output: bytes) -> bool:
        self.said.append(b"progress " + output if kind is ReportKind.PROGRESS else output)
        if kind is ReportKind.PROGRESS:
            self.spoken.set()
        return True


def execution(**given: Any) -> JobExecution:
    raw = msgspec.json.encode(given)
    return JobExecution(endpoint="ep", job_id="j", number=1, worker_id="w", input=raw, s3_config=None, silent=False)


@asynccontextmanager
async def pool(handler: Handler, processes: int = 1) -> AsyncIterator[HandlerPool]:
    subject = HandlerPool(handler, processes)
    try:
        with anyio.fail_after(PATIENCE_S):
            yield subject
    finally:
        await subject.aclose()


async def outcome(pool: HandlerPool, **given: Any) -> Any:
    result = await pool.run(execution(**given), Reports())
    assert result.error is None
    return json.loads(result.output or b"null")


async def test_a_process_runs_one_execution_after_the_other_and_is_not_this_one() -> None:
    async with pool(act) as subject:
        first, second = [await outcome(subject, n=n) for n in range(2)]
        assert (first["n"], second["n"]) == (0, 1)
        assert first["pid"] == second["pid"] != os.getpid()
        report = Reports()
        assert await subject.run(execution(do="talk"), report) == WorkerResult(output=b'"said"')
        assert report.said == [b'progress "talked"']
        failed = await subject.run(execution(do="raise"), Reports())
        assert json.loads(failed.error or "")["error_message"] == "bad"
        left = await subject.run(execution(do="leave"), Reports())
        assert json.loads(left.error or "")["error_type"] == "<class 'SystemExit'>"
        assert (await outcome(subject))["pid"] == first["pid"]


async def test_a_process_that_crashes_fails_its_execution_and_is_replaced() -> None:
    async with pool(act) as subject:
        ended = await subject.run(execution(do="exit"), Reports())
        assert ended.error == "the handler's process ended with exit code 7"
        killed = await subject.run(execution(do="crash"), Reports())
        assert killed.error == "the handler's process was ended by SIGSEGV"
        assert await outcome(subject)


async def test_an_execution_that_is_stopped_is_killed_and_the_next_has_another_process() -> None:
    async with pool(act) as subject, anyio.create_task_group() as tasks:
        report = Reports()
        tasks.start_soon(subject.run, execution(do="hang"), report)
        await report.spoken.wait()
        pid = int(report.said[0].removeprefix(b"progress "))
        tasks.cancel_scope.cancel()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_a_process_that_ended_while_it_was_idle_costs_nobody_an_execution() -> None:
    async with pool(act) as subject:
        pid = (await outcome(subject))["pid"]
        os.kill(pid, 9)
        with anyio.fail_after(PATIENCE_S):
            while subject._idle[0].is_alive:
                await anyio.lowlevel.checkpoint()
        assert (await outcome(subject))["pid"] != pid


async def test_as_many_executions_run_at_once_as_there_are_processes() -> None:
    async with pool(act, processes=2) as subject, anyio.create_task_group() as tasks:
        reports = [Reports() for _ in range(3)]
        for report in reports:
            tasks.start_soon(subject.run, execution(do="hang"), report)
        for report in reports[:2]:
            await report.spoken.wait()
        assert (subject._slots.borrowed_tokens, reports[2].said) == (2, [])
        tasks.cancel_scope.cancel()


async def test_an_emulator_runs_plain_handlers_in_processes_and_outlives_their_crashes() -> None:
    async with (
        emulator.serve(endpoints={"act": act, "count": count}, handler_processes=2) as service,
        httpx.AsyncClient(base_url=f"{service.origin}/v2", headers={"authorization": "k"}, timeout=PATIENCE_S) as http,
    ):
        crashed = (await http.post("/act/runsync", json={"input": {"do": "exit"}})).json()
        assert (crashed["status"], "exit code 7" in crashed["error"]) == ("FAILED", True)
        alive = (await http.post("/act/runsync", json={"input": {"n": 1}})).json()
        assert (alive["status"], alive["output"]["n"]) == ("COMPLETED", 1)
        job = (await http.post("/count/run", json={"input": {"n": 2}})).json()["id"]
        await http.get(f"/count/status-sync/{job}")
        assert (await http.get(f"/count/stream/{job}")).json()["stream"] == [{"output": 0}, {"output": 1}]


def test_the_fixture_runs_handlers_in_processes_too(emulated_service: Callable[..., ServedEmulator]) -> None:
    service = emulated_service(act, handler_processes=1)
    answer = httpx.post(
        f"{service.origin}/v2/any/runsync", json={"input": {"n": 1}}, headers={"authorization": "k"}, timeout=PATIENCE_S
    )
    assert answer.json()["output"]["pid"] != os.getpid()


def test_a_function_is_found_by_its_module_or_by_its_file(tmp_path: Path) -> None:
    assert location_of(act) == FunctionLocation(name="act", module="tests.emulator.process_handlers")
    assert find(location_of(act)) is act
    file = tmp_path / "own_handler.py"
    file.write_text("def handler(job):\n    return 5\n")
    place = location_of(load_handler(f"{file}:handler"))
    assert place == FunctionLocation(name="handler", file=str(file))
    assert find(place)({}) == 5


@pytest.mark.parametrize("handler", [lambda _: 1, functools.partial(act), Reports().__call__])
def test_what_no_other_process_can_find_is_refused(handler: Handler) -> None:
    with pytest.raises(UsageError, match="top level"):
        HandlerPool(handler, 1)


def test_a_function_of_a_module_without_a_file_is_refused() -> None:
    import sys

    module = ModuleType("_handler_of_nowhere")
    module.__file__ = None
    exec("def handler(job): return 1", module.__dict__)
    sys.modules[module.__name__] = module
    try:
        with pytest.raises(UsageError, match="no file"):
            location_of(module.handler)
    finally:
        del sys.modules[module.__name__]


def said_by(handler: Handler, *executions: JobExecution) -> list[Message]:
    """What the program in the process says, here and now."""
    sink = io.BytesIO()
    serve_executions(io.BytesIO(b"".join(map(frame, (location_of(handler), *executions)))), sink)
    raw, messages = sink.getvalue(), []
    while raw:
        length = int.from_bytes(raw[:4], "big")
        messages.append(msgspec.msgpack.decode(raw[4 : 4 + length], type=ReportMessage | EndedMessage))
        raw = raw[4 + length :]
    return messages


def test_the_program_serves_until_nothing_more_comes() -> None:
    assert said_by(count, execution(n=2), execution(n=0)) == [
        ReportMessage(ReportKind.PROGRESS, b'"begun"'),
        ReportMessage(ReportKind.CHUNK, b"0"),
        ReportMessage(ReportKind.CHUNK, b"1"),
        EndedMessage(WorkerResult()),
        ReportMessage(ReportKind.PROGRESS, b'"begun"'),
        EndedMessage(WorkerResult()),
    ]
    assert said_by(act) == []


def test_an_awaitable_is_awaited_in_the_process() -> None:
    done, failed = said_by(later, execution(n=2), execution(fail=1))
    assert done == EndedMessage(WorkerResult(output=b'{"n": 2}'))
    assert isinstance(failed, EndedMessage)
    assert "too late" in (failed.result.error or "")
