"""A disk that is full for a while under a process that waits for its ledger: nothing leaves that is not written first, and
all goes on once there is room.
"""

import math
from collections import Counter
from pathlib import Path

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.errors import StorageError
from orchestrator.ledger.transactions.patience import Trouble
from tests.engine.collecting.test_webhook_inbox import tell
from tests.engine.process import Process, process
from tests.engine.scripted import Scripted, numbered, says
from tests.ledger.full_disk import fill_disk, full_disk
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FULL_S = 300.0
JOBS = 60
TOLD = r"cannot write the ledger \(database or disk is full\); free some space on its disk"


def answering() -> Scripted:
    return Scripted(
        run=numbered(), status=lambda asked: says("COMPLETED", asked.remote_id, output=f"{asked.remote_id} {'x' * 999}")
    )


def told_by(p: Process) -> list[Trouble | None]:
    """What people are told from now on."""
    told: list[Trouble | None] = []
    p.ledger.patience.seconds = math.inf
    p.ledger.patience.subscribe(told.append)
    return told


async def test_while_the_disk_is_full_nothing_is_sent_and_then_all_goes_on_and_nothing_is_sent_twice(
    tmp_path: Path,
) -> None:
    transport = answering()
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        told = told_by(p)
        await p.begin()
        await p.until(State.OUTSTANDING, 5)
        async with full_disk(p.ledger):
            await anyio.sleep(FULL_S / 2)
            sent, asked, waiting = len(transport.of("run")), len(transport.of("status")), len(p.ledger.writer._pending)
            await anyio.sleep(FULL_S / 2)
            assert (len(transport.of("run")), len(transport.of("status"))) == (sent, asked), "nothing leaves"
            assert len(p.ledger.writer._pending) == waiting, "nothing piles up"
            assert 0 < sent < JOBS
            assert await tell(p, 1) == 503, "whoever brings a result keeps it"
        await p.finish()
        assert (await p.counts())["succeeded"] == JOBS
        assert Counter(each.body for each in transport.of("run")).most_common(1)[0][1] == 1, "what is paid is paid once"
        began, ended = told
        assert began is not None
        assert "free some space on its disk" in began.error.while_waiting
        assert ended is None


async def test_a_process_that_is_to_stop_waits_no_longer_and_says_why(tmp_path: Path) -> None:
    transport = answering()

    async def work() -> None:
        async with process(tmp_path / "db", transport, jobs=JOBS) as p:
            told_by(p)
            await p.begin()
            await p.until(State.OUTSTANDING, 5)
            await fill_disk(p.ledger)
            await anyio.sleep(FULL_S)
            p.engine.process.stop()

    with pytest.raises(BaseExceptionGroup) as raised:
        await work()
    assert raised.group_contains(StorageError, match=f"{TOLD}, then resume")
    assert running_loop().time() < FULL_S + 60
    async with process(tmp_path / "db", transport, jobs=JOBS) as p:
        await p.begin()
        await p.finish()
        assert (await p.counts())["succeeded"] == JOBS
