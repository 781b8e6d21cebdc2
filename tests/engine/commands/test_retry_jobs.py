"""`--retry-failed`: whatever a person, or the program, has given up may be tried again."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from tests.api.outcomes.test_late_results import program
from tests.engine.scripted import CANCELLED, FAILED, Asked, Reply, Scripted, numbered, says
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def cancel_requested(folder: Path, value: int) -> None:
    with closing(sqlite3.connect(folder / "ledger.db")) as db:
        db.execute("UPDATE runs SET cancel_requested = ?", (value,))
        db.commit()


async def test_failed_and_cancelled_jobs_are_opened_again_unless_the_run_is_to_be_cancelled(tmp_path: Path) -> None:
    def status(asked: Asked) -> Reply:
        return FAILED if asked.remote_id == "r-0" else CANCELLED

    clock, transport = VirtualClock(), Scripted(run=numbered(), status=status)
    await program(tmp_path, transport, clock, jobs=3)
    assert len((tmp_path / "errors.jsonl").read_text().splitlines()) == 3
    cancel_requested(tmp_path, 1)
    way_out = re.escape(f"lift that with: orchestrator unpause in --ledger {tmp_path / 'ledger.db'}\n")
    with pytest.raises(UsageError, match=f"in was cancelled, and retry_failed= .*; {way_out}"):
        await program(tmp_path, transport, clock, resumes=True, retry_failed=True)
    assert len(transport.of("run")) == 3
    cancel_requested(tmp_path, 0)
    transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
    said = await program(tmp_path, transport, clock, resumes=True, retry_failed=True)
    assert "in: 1 failed and 2 cancelled jobs are queued again" in said
    assert len(transport.of("run")) == 6
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 3
    assert (tmp_path / "errors.jsonl").read_text() == ""
