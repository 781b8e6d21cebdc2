"""Spans on their way: what a receiver gets, and what is said where OpenTelemetry is missing."""

from functools import partial
from pathlib import Path
from types import ModuleType

import anyio
import anyio.to_thread
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from orchestrator.clock import SystemClock
from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.telemetry.traces.otlp import otlp_exporter, sending_by
from orchestrator.telemetry.traces.spans import SpanOf
from orchestrator.telemetry.traces.trace_position import BEGINNING, trace_position
from orchestrator.telemetry.traces.trace_service import send_traces
from tests.factories import a_row
from tests.ledger.ledgers import a_run, brought_to, write_ledger
from tests.telemetry.traces.receiver import receiving

pytestmark = pytest.mark.anyio

SPAN = SpanOf(
    name="job",
    trace=0xABC,
    number=0xDEF,
    parent=0x123,
    began_at=1_000_000,
    ended_at=3_000_000,
    attributes={"orchestrator.run": "night"},
    error_type="timed_out",
)


async def test_a_span_is_what_opentelemetry_says() -> None:
    exporter = InMemorySpanExporter()
    assert await sending_by(exporter)([SPAN])
    [span] = exporter.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert (span.context.trace_id, span.context.span_id, span.parent.span_id) == (0xABC, 0xDEF, 0x123)
    assert (span.start_time, span.end_time) == (1_000_000_000, 3_000_000_000)
    assert span.attributes == {"orchestrator.run": "night", "error.type": "timed_out"}
    assert not span.status.is_ok
    assert span.resource.attributes["service.name"] == "orchestrator"


async def test_the_variables_name_what_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "batches")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=night")
    exporter = InMemorySpanExporter()
    await sending_by(exporter)([SPAN])
    [span] = exporter.get_finished_spans()
    assert span.resource.attributes["service.name"] == "batches"
    assert span.resource.attributes["deployment.environment"] == "night"


def an_ended_job(path: Path, name: str = "night") -> None:
    """A ledger with a job that has ended."""

    async def made(ledger: Ledger) -> None:
        await a_run(ledger, [a_row(1, "a"), a_row(2, "b")], name=name)
        await brought_to(ledger, State.SUCCEEDED, ledger.now())

    write_ledger(path, made)


@pytest.mark.slow
async def test_a_receiver_gets_the_spans_of_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "l.db"
    await anyio.to_thread.run_sync(an_ended_job, path)
    with trace_position(path) as place:
        place.write(BEGINNING)
    with receiving() as receiver:
        receiver.answers = [503]
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc")
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                await tasks.start(partial(send_traces, path, 1.0, clock=SystemClock()))
                await anyio.to_thread.run_sync(receiver.came.wait)
                tasks.cancel_scope.cancel()
    assert {span.name for span in receiver.spans} >= {"job", "attempt"}
    assert len(set(receiver.numbers)) == len(receiver.numbers)
    assert receiver.headers[0]["authorization"] == "Bearer abc"


@pytest.mark.slow
async def test_a_ledger_that_comes_later_is_told_of_from_its_beginning_and_so_is_another_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, other = tmp_path / "l.db", tmp_path / "other.db"
    with receiving() as receiver, anyio.fail_after(60):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(send_traces, path, 1.0, clock=SystemClock()))
            for name in ("first", "second"):
                await anyio.to_thread.run_sync(an_ended_job, other, name)
                for beside in ("-wal", "-shm"):
                    path.with_name(path.name + beside).unlink(missing_ok=True)
                other.rename(path)
                receiver.came.clear()
                await anyio.to_thread.run_sync(receiver.came.wait)
            tasks.cancel_scope.cancel()
    told = [each.value.string_value for span in receiver.spans for each in span.attributes]
    assert [name for name in told if name in ("first", "second")] == ["first", "second"]
    assert len([record for record in caplog.records if "there is no ledger" in record.getMessage()]) <= 1, "said once"


async def test_a_receiver_that_is_not_there_takes_nothing() -> None:
    exporter = OTLPSpanExporter(endpoint="http://127.0.0.1:1/v1/traces", timeout=0.1)
    assert not await sending_by(exporter)([SPAN])


def test_a_missing_extra_is_told_with_the_command_that_installs_it() -> None:
    def load(name: str) -> ModuleType:
        raise ImportError(name)

    with pytest.raises(UsageError, match=r"install .*\[otel\]"):
        otlp_exporter({}, load)


def test_another_protocol_is_refused_rather_than_ignored() -> None:
    with pytest.raises(UsageError, match="not by grpc"):
        otlp_exporter({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})
