"""Who works on a ledger in a file."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.inspect.processes import processes
from orchestrator.clock import SystemClock
from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.errors import UsageError
from orchestrator.ledger import dispatcher_lock, open_ledger
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.runs.heartbeats import ProcessReport, RunReport
from orchestrator.views.processes import LackShown
from tests.engine.rows import empty_ledger
from tests.ledger.ledgers import a_run

pytestmark = pytest.mark.anyio


async def test_on_a_file_there_is_whoever_holds_it_and_what_that_cannot_serve(tmp_path: Path) -> None:
    path, clock = tmp_path / "l.db", SystemClock()
    async with open_ledger(empty_ledger(path), clock=clock) as ledger, anyio.create_task_group() as tasks:
        await tasks.start(ledger.writer.serve)
        run = await a_run(ledger, 3)
        assert (await processes(path)).processes == ()
        with dispatcher_lock(path, now=clock.now(), doing="orchestrator serve"):
            [silent] = (await processes(path)).processes
            assert silent.process == process_name("orchestrator serve")
            assert (silent.reported_at, silent.stands_by, silent.shards) == (None, False, ())

            held = RunReport(blocked_by=Hold(Gate.UNSERVABLE, "there is no API key for it", stops=False))
            await ledger.runs.heartbeats.beat(ProcessReport(runs={run.id: held, 99: held}))
            found = await processes(path)
            [one] = found.processes
            assert one.reported_at is not None
            assert (one.process, one.since) == (silent.process, silent.since)
            assert (one.version, one.is_beating, one.is_connected) == (None, None, True)
            assert found.lacks == (LackShown(run=run.name, process=process_name(), why="there is no API key for it"),)
        assert (await processes(path)).processes == ()
        tasks.cancel_scope.cancel()


async def test_where_there_is_no_ledger_that_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no ledger here"):
        await processes(tmp_path / "none.db")
