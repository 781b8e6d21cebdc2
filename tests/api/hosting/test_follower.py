"""Following a run that another process serves: what is told, and whom is asked."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import msgspec
import pytest

from orchestrator.api.foreground.run import run
from orchestrator.api.hosting.follower import followed_run
from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger, command_ledger, dispatcher_lock
from orchestrator.ledger.commands.command_types import OF_ANOTHER, Action, Reply
from orchestrator.ledger.runs.heartbeats import STALE_US, MeterReading, ProcessReport, RunReport
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.units import SECOND_US
from orchestrator.views.status import CollectedBy, Collecting, Snapshot
from tests.engine.process import SAY_EVERY_S, Heard, process
from tests.engine.scripted import Scripted
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@asynccontextmanager
async def followed(folder: Path) -> AsyncIterator[SimpleNamespace]:
    """Follows a run of three queued jobs; the test is the process that has the lock, and says what it likes."""
    clock, heard = VirtualClock(), Heard()
    path = folder / "l.db"
    async with process(path, Scripted(), clock=clock, jobs=3):
        pass
    with ExitStack() as lock:
        lock.enter_context(dispatcher_lock(path, now=clock.now()))
        async with command_ledger(path, clock=clock, connect=async_creator(path)) as ledger:
            run = await ledger.runs.named("run")
            assert run is not None
            each = await followed_run(ledger, run, heard)
            async with anyio.create_task_group() as group:
                group.start_soon(each.serve)
                yield SimpleNamespace(it=each, ledger=ledger, run=run, clock=clock, heard=heard, lock=lock, path=path)
                group.cancel_scope.cancel()


async def says(ledger: Ledger, said: ProcessReport, began_at: int) -> None:
    """Another process, which began then, says it."""
    ledger.runs.heartbeats._began_at = began_at
    await ledger.runs.heartbeats.beat(said)


async def test_a_process_that_says_nothing_while_it_has_the_lock_is_told_of_once_and_not_displaced(
    tmp_path: Path,
) -> None:
    async with followed(tmp_path) as f:
        await anyio.sleep(STALE_US / SECOND_US - 1)
        assert not f.heard.warnings
        await anyio.sleep(60)
        [warning] = f.heard.warnings
        assert "has said nothing for 30 s" in warning
        assert f.it.holder is not None
        await f.ledger.runs.heartbeats.beat(ProcessReport())
        await anyio.sleep(1)
        await f.it.look()
        await anyio.sleep(60)
        assert len(f.heard.warnings) == 2, "again, as it had gone on meanwhile"
        f.lock.close()
        await anyio.sleep(1)
        assert f.it.holder is None


async def test_each_process_that_takes_the_place_of_the_one_that_was_asked_is_asked_too(tmp_path: Path) -> None:
    async def asked() -> list[int]:
        pending = await f.ledger.commands.pending()
        return [each.id for each in pending if (each.action, each.run) == (Action.SERVE, f.run.id)]

    async with followed(tmp_path) as f:
        await f.ledger.runs.heartbeats.beat(ProcessReport())
        async with anyio.create_task_group() as group:
            group.start_soon(f.it.ask)
            await anyio.sleep(10)
        [first] = await asked()
        await f.ledger.runs.heartbeats.beat(ProcessReport(webhook_bytes=7))
        await f.it.look()
        assert await asked() == [first], "it only says something else"
        for later in (1, 2):
            await says(f.ledger, ProcessReport(), f.clock.now() + later)
            await f.it.look()
            assert await asked() == [first], "it hears that itself"
        await f.ledger.commands.finish(first, OF_ANOTHER)
        await f.it.look()
        [second] = await asked()
        assert second > first


async def test_a_successor_that_finds_what_was_asked_of_another_is_asked_itself(tmp_path: Path) -> None:
    answers: list[str | None] = []

    async def ask() -> None:
        answers.append((await f.it.ask()).outcome)

    async with followed(tmp_path) as f:
        await f.ledger.runs.heartbeats.beat(ProcessReport())
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            for reply in (OF_ANOTHER, Reply("it is served")):
                await anyio.sleep(1)
                [command] = await f.ledger.commands.pending()
                await f.ledger.commands.finish(command.id, reply)
    assert answers == ["it is served"]


async def test_how_the_run_stands_is_what_the_other_process_says_and_what_it_has_sent_since_then(
    tmp_path: Path,
) -> None:
    def said(sent: int, **of_run: object) -> ProcessReport:
        meter = MeterReading(
            endpoint_id=f.run.endpoint_id, operation=Operation.RUN, used=1, allowance=9, throttled=sent // 10, sent=sent
        )
        return ProcessReport(meters=(meter,), runs={f.run.id: msgspec.structs.replace(RunReport(), **of_run)})

    async with followed(tmp_path) as f:
        await f.ledger.runs.heartbeats.beat(said(50))
        await f.it.look()
        assert (f.it.sent, f.it.is_over, f.it.blocked_by) == ({}, False, None)
        assert f.it.progress.unfinished == 3
        collecting, no_key = Collecting(by=CollectedBy.WEBHOOKS, safe_until=None), Hold(Gate.UNSERVABLE, "no key")
        await f.ledger.runs.heartbeats.beat(said(80, blocked_by=no_key, collecting=collecting))
        await f.it.look()
        assert f.it.sent == {"run": 30, "throttled": 3}
        assert (f.it.blocked_by, f.it.is_adoptable, f.it.is_over) == (no_key, True, False)
        await f.ledger.runs.heartbeats.beat(said(80, stopped="the key is refused"))
        await f.it.look()
        assert f.it.is_over, "nothing more is sent, and nothing is at the service"
        await says(f.ledger, said(5, is_released=True), f.clock.now() + 1)
        await f.it.look()
        assert f.it.sent["run"] == 5, "another process has begun at nothing"
        assert f.it.is_over, "somebody wants no more of it sent"


class First(Heard):
    """Notes how things stand when following begins, and has enough then."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Snapshot | None = None
        self.stop = anyio.Event()

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        self.first = look()
        self.stop.set()


async def test_what_was_there_before_is_known_when_following_begins(tmp_path: Path) -> None:
    """Else the whole run is divided by the seconds for which a process followed it."""
    console = First()
    async with followed(tmp_path) as f:
        await f.ledger.runs.heartbeats.beat(ProcessReport())
        connection = ConnectionSettings(api_key="key", serverless_url=f.run.service_url)
        around = Dependencies(clock=f.clock, environ={}, connect=async_creator)
        request = RunRequest(ledger=f.path, name="run", source=None, endpoint=None, connection=connection)
        await run(request, console, around, console.stop)

    assert console.first is not None
    assert console.first.counts["queued"] == 3


async def test_a_ledger_that_is_gone_ends_the_following(tmp_path: Path) -> None:
    async def moved() -> None:
        async with followed(tmp_path) as f:
            f.path.rename(tmp_path / "elsewhere.db")
            await anyio.sleep(SAY_EVERY_S)

    with pytest.raises(StorageError, match="is not in its place any more"):
        await moved()
