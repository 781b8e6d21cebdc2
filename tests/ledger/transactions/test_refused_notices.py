"""Notices are kept in memory until they are written; while much waits, whoever brings one is to come again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import LedgerUnavailableError
from orchestrator.ledger.database import Company
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.units import MIB
from tests.factories import S
from tests.ledger.ledgers import opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.loop import running_loop

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


class Silent(Database):
    """One that says nothing until it `answers`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, connect=async_creator(path))
        self.answers = anyio.Event()

    @asynccontextmanager
    async def writing(
        self, company: Company = Company.ALONE, *, is_proved: bool = True
    ) -> AsyncIterator[AsyncConnection]:
        await self.answers.wait()
        async with super().writing(company, is_proved=is_proved) as connection:
            yield connection


def a_notice(submission: int, size: int) -> Notice:
    record = Record(remote_id="r", status="COMPLETED", output=b"1" * size)
    return Notice(submission=submission, received_at=EPOCH_AT + 1_000 * S, record=record)


async def test_they_are_refused_at_once_while_much_waits_for_a_ledger_that_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    async with opened(path):
        pass
    silent = Silent(path)
    writer = GroupCommitWriter(silent, VirtualClock())
    async with anyio.create_task_group() as group:
        await group.start(writer.serve)
        async with anyio.create_task_group() as senders:
            for number, size in enumerate((32 * MIB, 32 * MIB, MIB)):
                senders.start_soon(writer.record_notice, a_notice(number, size))
            await anyio.sleep(1)
            begun_s = running_loop().time()
            with pytest.raises(LedgerUnavailableError, match=r"l\.db: cannot use the ledger \(65 MiB wait"):
                await writer.record_notice(a_notice(3, 1))
            assert running_loop().time() == begun_s
            silent.answers.set()
        await writer.record_notice(a_notice(3, 1))
        group.cancel_scope.cancel()
    await silent.aclose()
    async with opened(path) as ledger:
        kept = await ledger.jobs.notices.after(0, most=9, bytes_max=1 << 30)
    assert [notice.submission for notice in kept.notices] == [0, 1, 2, 3]
