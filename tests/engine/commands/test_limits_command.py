"""`orchestrator limits` at a ledger: what it writes, what it shows, and whether anybody is at work."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.admin.limits import limits, limits_reset, limits_set
from orchestrator.api.inspect.status import status
from orchestrator.clock import SystemClock
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.engine.commands.inbox import CommandInbox
from orchestrator.engine.process.ledger_watch import LedgerWatch
from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.ledger.runs.heartbeats import MeterReading, ProcessReport
from orchestrator.ledger.sqlite.file_locks import dispatcher_lock
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.limits import EndpointLimitStatus, OperationLimits
from tests.engine.rows import empty_ledger

pytestmark = pytest.mark.anyio

RUN = Operation.RUN


@asynccontextmanager
async def at_work(path: Path) -> AsyncIterator[Ledger]:
    """A process that works on the ledger."""
    clock = SystemClock()
    with dispatcher_lock(path, now=clock.now()):
        async with open_ledger(path, clock=clock) as ledger, anyio.create_task_group() as group:
            await group.start(ledger.writer.serve)
            commands = CommandInbox(ledger, Scope.everything())
            watch = LedgerWatch(ledger.signals_of_others, every_s=0.02)
            watch.subscribers.add(commands.on_change)
            await group.start(commands.serve)
            await group.start(watch.serve)
            yield ledger
            group.cancel_scope.cancel()


async def runs(path: Path, *runs: tuple[str, str, str]) -> Path:
    async with at_work(empty_ledger(path)) as ledger:
        for name, url, endpoint in runs:
            await ledger.runs.create(name=name, service_url=url, endpoint=endpoint, source="-", settings=RunSettings())
            run = await ledger.runs.named(name)
            assert run is not None
            await ledger.runs.intakes.accept(await ledger.runs.intakes.start(run))
    return path


async def two_endpoints(folder: Path) -> Path:
    return await runs(
        folder / "l.db",
        ("captions", "https://api.example", "abc"),
        ("titles", "https://api.example", "abc"),
        ("night", "https://api.example", "xyz"),
        ("mine", "local:", "local:/f.py:f"),
    )


def of(endpoint: EndpointLimitStatus) -> Mapping[str, OperationLimits]:
    return {line.operation: line for line in endpoint.operations}


async def test_a_limit_belongs_to_the_endpoint_and_stays_until_it_is_reset(tmp_path: Path) -> None:
    path = await two_endpoints(tmp_path)
    changed = await limits_set(path, "titles", {RUN: Limit(500, 10, 100), Operation.HEALTH: Limit(2, 0.5)})
    assert (changed.endpoint, changed.runs, changed.holder) == ("abc", ("captions", "titles"), None)
    [shown] = await limits(path, "captions")
    assert shown == msgspec.structs.replace(changed, outcome=None)
    assert of(shown)["run"].limit == "run=500/10:100"
    assert of(shown)["run"].set_at is not None
    assert of(shown)["health"].limit == "health=2/0.5"
    assert of(shown)["status"].set_at is None

    await limits_reset(path, "captions", (RUN,))
    everywhere = await limits(path, None)
    assert [each.endpoint for each in everywhere] == ["abc", "xyz", "local:/f.py:f"]
    assert of(everywhere[0])["run"].limit == "run=1000/10:200"
    assert of(everywhere[0])["health"].limit == "health=2/0.5"
    assert of(everywhere[1])["health"].limit == "health=1/1"
    assert all(line.set_at is None for line in (await limits_reset(path, "captions", ())).operations)


async def test_how_the_process_at_work_stands_is_shown_while_it_works(tmp_path: Path) -> None:
    path = await two_endpoints(tmp_path)
    meters = tuple(
        MeterReading(endpoint_id=1, operation=each, used=7, allowance=1000, throttled=2)
        for each in (RUN, Operation.STATUS)
    )
    async with at_work(path) as ledger:
        await ledger.runs.heartbeats.beat(ProcessReport(meters=meters))
        line = of((await limits(path, "captions"))[0])["run"]
        assert (line.used, line.allowed, line.throttled) == (7, 1000, 2)
        found = {run.run: run for run in await status(path)}
        assert (found["titles"].window_used, found["titles"].window_allowed, found["titles"].throttled) == (7, 1000, 4)
        assert found["night"].window_used is None
        changed = await limits_set(path, "captions", {RUN: Limit(5, 1)})
        assert changed.holder is not None
        assert changed.outcome == "they are in force"
        assert of(changed)["run"].allowed is None, "how it stood with the former limit says nothing of the new one"
        assert of(changed)["status"].allowed == 1000
    assert of((await limits(path, "captions"))[0])["run"].used is None, "of a process that has ended"
    assert all(run.window_used is None for run in await status(path))


async def test_unknown_runs_and_functions_of_one_s_own_have_no_limits_to_set(tmp_path: Path) -> None:
    path = await two_endpoints(tmp_path)
    with pytest.raises(UsageError, match="no run called 'dawn' here; there is: captions, titles, night, mine"):
        await limits_set(path, "dawn", {RUN: Limit(5, 1)})
    with pytest.raises(UsageError, match="no run called 'dawn'"):
        await limits_reset(path, "dawn", ())
    with pytest.raises(UsageError, match="no run called 'dawn'"):
        await limits(path, "dawn")
    with pytest.raises(UsageError, match="mine runs a function of yours"):
        await limits_set(path, "mine", {RUN: Limit(5, 1)})
    with pytest.raises(UsageError, match="there is no ledger here"):
        await limits(tmp_path / "none.db", None)
