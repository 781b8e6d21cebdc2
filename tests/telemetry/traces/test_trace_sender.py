"""Traces are sent once a job has ended, from where they were left off, and nothing is sent under two numbers."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.flow_lifecycle import FlowEvent, FlowKind
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.settings.addresses.ledger_address import file_of
from orchestrator.telemetry.traces.spans import SpanOf
from orchestrator.telemetry.traces.trace_position import SentUntil, TracePosition, trace_position
from orchestrator.telemetry.traces.trace_sender import TraceSender
from orchestrator.units import SECOND_US
from tests.factories import a_row
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.ledger.pipelines import a_pipeline, applied

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@dataclass
class Taken:
    """A receiver in memory; `refuses` says how often it takes nothing."""

    spans: list[SpanOf] = field(default_factory=list)
    refuses: int = 0
    asked: int = 0

    async def send(self, spans: Sequence[SpanOf]) -> bool:
        self.asked += 1
        if self.refuses:
            self.refuses -= 1
            return False
        self.spans += spans
        return True

    def named(self, name: str) -> list[SpanOf]:
        return [span for span in self.spans if span.name == name]


@asynccontextmanager
async def sending(ledger: Ledger, taken: Taken, *, share: float = 1.0) -> AsyncIterator[None]:
    with trace_position(ledger.address) as place:
        sender = TraceSender(ledger=ledger, place=place, share=share, send=taken.send)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.serve)
            await until(lambda: place.read() is not None)
            yield
            tasks.cancel_scope.cancel()


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(600):
        while not is_so():  # noqa: ASYNC110  there is no event for it
            await anyio.sleep(1)


async def three_jobs(ledger: Ledger) -> None:
    await a_run(ledger, [a_row(n, f"secret-{n}") for n in (1, 2, 3)], name="night")


async def test_a_job_is_told_of_once_it_has_ended(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await three_jobs(ledger)
        taken = Taken()
        async with sending(ledger, taken):
            await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=1)
            await brought_to(ledger, State.OUTSTANDING, ledger.now(), job=2)
            await until(lambda: len(taken.named("job")) == 1)
            await brought_to(ledger, State.FAILED, ledger.now(), job=3)
            await until(lambda: len(taken.named("job")) == 2)
    succeeded, failed = taken.named("job")
    assert (succeeded.attributes["orchestrator.job"], succeeded.error_type) == (1, None)
    assert failed.error_type is not None
    assert "secret" not in repr(taken.spans)  # no payloads, and no names of jobs


async def test_who_sends_for_the_first_time_begins_with_what_happens_from_then_on(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await three_jobs(ledger)
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=1)
        taken = Taken()
        async with sending(ledger, taken):
            await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=2)
            await until(lambda: len(taken.named("job")) == 1)
    assert [span.attributes["orchestrator.job"] for span in taken.named("job")] == [2]


async def test_what_ended_while_nobody_sent_is_sent_afterwards(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await three_jobs(ledger)
        taken = Taken()
        async with sending(ledger, taken):
            pass
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=1)
        async with sending(ledger, taken):
            await until(lambda: len(taken.named("job")) == 1)
        async with sending(ledger, taken):
            await anyio.sleep(60)
    assert len(taken.named("job")) == 1


class _Killed(Exception):
    """The process is gone, just there."""


class _KilledBeforeItWrites(TracePosition):
    def write(self, until: SentUntil) -> None:
        raise _Killed


async def test_who_is_killed_before_it_is_written_down_sends_the_same_again(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await three_jobs(ledger)
        first, second = Taken(), Taken()
        async with sending(ledger, first):
            pass
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=1)
        with trace_position(ledger.address) as place:
            killed = _KilledBeforeItWrites(place._descriptor, place._path)
            with pytest.raises(_Killed):
                await TraceSender(ledger=ledger, place=killed, share=1.0, send=first.send).serve()
        async with sending(ledger, second):
            await until(lambda: len(second.named("job")) == 1)
    assert first.spans == second.spans != []


async def test_what_is_not_taken_waits_and_nothing_is_left_out(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await three_jobs(ledger)
        taken = Taken(refuses=4)
        async with sending(ledger, taken):
            for job in (1, 2, 3):
                await brought_to(ledger, State.SUCCEEDED, ledger.now() + job, job=job)
            await until(lambda: len(taken.named("job")) == 3)
    assert taken.asked >= 5
    assert len({span.number for span in taken.spans}) == len(taken.spans)


async def test_only_the_sampled_jobs_are_told_of(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger, [a_row(n) for n in range(1, 41)], name="night")
        taken = Taken()
        async with sending(ledger, taken, share=0.3):
            for job in range(1, 41):
                await brought_to(ledger, State.SUCCEEDED, ledger.now() + job, job=job)
            end = await ledger.reports.feed.end()
            written = file_of(ledger.address).with_name("l.db.traces")
            await until(lambda: int(written.read_text().split()[0]) == end)
    assert 3 <= len(taken.named("job")) <= 25


async def test_where_events_were_deleted_their_numbers_that_are_given_again_are_told_of(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await three_jobs(ledger)
        taken = Taken()
        await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=1)
        async with sending(ledger, taken):
            pass
        sent = ledger.now() + SECOND_US
        await brought_to(ledger, State.SUCCEEDED, sent + SECOND_US, job=2)
        with trace_position(ledger.address) as place:  # as it was left by an event of that number which was deleted
            place.write(SentUntil(await ledger.reports.feed.end(), sent, 0, 0))
        async with sending(ledger, taken):
            await until(lambda: len(taken.named("job")) == 1)
    assert [span.attributes["orchestrator.job"] for span in taken.named("job")] == [2]


async def test_flows_that_ended_are_told_of_with_their_stages(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        of = await applied(ledger, a_pipeline("p"), now=ledger.now())
        names = await ledger.flows.add(of.id, of.name, of.definition, [SECOND_US, 2 * SECOND_US], FlowKind.TRIGGERED)
        taken = Taken()
        async with sending(ledger, taken):
            one, two = [flow for name in names if (flow := await ledger.flows.named(name)) is not None]
            await a_run(ledger, [a_row(1)], name="p@1/s")
            await ledger.flows.start([one.id])
            await ledger.flows.begin_stage(one.id, "s", run=1, source="", sha256="")
            await ledger.flows.step(two.id, FlowEvent.CANCELLED)  # which never began
            await ledger.flows.step(one.id, FlowEvent.SUCCEEDED)
            await brought_to(ledger, State.SUCCEEDED, ledger.now(), job=1)
            await until(lambda: len(taken.named("flow p")) == 1)
            await anyio.sleep(60)
    [whole], [stage], [job] = taken.named("flow p"), taken.named("stage s"), taken.named("job")
    assert (stage.parent, job.parent) == (whole.number, stage.number)
    assert whole.trace == stage.trace == job.trace


async def test_two_dashboards_of_one_ledger_do_not_both_send(tmp_path: Path) -> None:
    with (
        trace_position(tmp_path / "l.db"),
        pytest.raises(UsageError, match="another dashboard"),
        trace_position(tmp_path / "l.db"),
    ):
        pass


async def test_a_place_that_cannot_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "l.db.traces").write_text("nonsense")
    with trace_position(tmp_path / "l.db") as place:
        assert place.read() is None
        place.write(SentUntil(7, 8, 9, 10))
        assert place.read() == SentUntil(7, 8, 9, 10)


async def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with trace_position(tmp_path / "l.db") as place:
        full = TracePosition(-1, tmp_path / "l.db.traces")
        with pytest.raises(StorageError, match=r"l\.db\.traces"):
            full.write(SentUntil(1, 2, 3, 4))
        assert place.read() is None
    with pytest.raises(UsageError, match="kept there"), trace_position(tmp_path / "none" / "l.db"):
        pass
