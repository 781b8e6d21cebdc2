"""Of what a process hands over whose place another one has taken, what it heard is kept, for that one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.core.jobs import transitions
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.core.service.webhook_token import Notice
from orchestrator.errors import DeposedError
from orchestrator.ledger.database import Company
from orchestrator.ledger.sqlite.database import Database
from orchestrator.ledger.transactions.group_commit import GroupCommitWriter
from orchestrator.ledger.transactions.transaction import Transaction
from orchestrator.units import MIB
from tests.factories import S, an_outcome
from tests.ledger.ledgers import a_run, brought_to, jobs_now, opened
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

AT = EPOCH_AT + 1_000 * S
LARGE = b'"%b"' % (b"x" * 40 * MIB)


class Lost(Database):
    """One that its process has lost. Whoever writes waits until it `is_back`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, connect=async_creator(path))
        self.is_back = anyio.Event()
        self.is_back.set()

    @asynccontextmanager
    async def writing(
        self, company: Company = Company.ALONE, *, is_proved: bool = True
    ) -> AsyncIterator[AsyncConnection]:
        if is_proved:
            raise DeposedError
        await self.is_back.wait()
        async with super().writing(company, is_proved=False) as connection:
            yield connection


@asynccontextmanager
async def deposed(path: Path) -> AsyncIterator[tuple[GroupCommitWriter, Lost]]:
    """The writer of a process that has lost the ledger at `path`, which is there."""
    database = Lost(path)
    own = GroupCommitWriter(database, VirtualClock())
    async with anyio.create_task_group() as group:
        await group.start(own.serve)
        yield own, database
        group.cancel_scope.cancel()
    await database.aclose()


async def three_results(path: Path, output: bytes = b"1") -> list[Transition]:
    """Those of three jobs that are at the service."""
    async with opened(path) as ledger:
        await a_run(ledger, 3)
        sent = [await brought_to(ledger, State.OUTSTANDING, AT + n, job=n) for n in (1, 2, 3)]
    outcomes = [an_outcome(job, output=output) for job in sent]
    return [transitions.completed(job, made, reason="r", at=AT) for job, made in zip(sent, outcomes, strict=True)]


async def kept(path: Path) -> list[Notice]:
    async with opened(path) as ledger:
        assert {job.state for job in await jobs_now(ledger)} == {State.OUTSTANDING}
        return (await ledger.jobs.notices.after(0, most=9, bytes_max=1 << 30)).notices


async def test_steps_become_notices_webhooks_stay_what_they_are_and_nothing_else_is_written(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    first, second, third = await three_results(path)
    webhook = Notice(submission=third.before.submission or 0, received_at=AT, record=None)
    told: list[Exception | None] = []

    async def cancel(transaction: Transaction) -> None:
        await transaction.apply([transitions.cancelled_on_request(first.before, at=AT)])

    async with deposed(path) as (own, _):
        own.submit(first, told.append)
        await own.record_notice(webhook)
        for write in (partial(own.step, second), partial(own.run, cancel), own.flush):
            with pytest.raises(DeposedError):
                await write()
    assert [type(error) for error in told] == [DeposedError]
    found = {notice.key for notice in await kept(path)}
    assert found == {webhook.key, *((step.before.submission, "COMPLETED") for step in (first, second))}


async def test_what_waits_for_a_database_that_is_away_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    steps = await three_results(path, LARGE)
    told: list[int] = []
    async with deposed(path) as (own, database):
        with pytest.raises(DeposedError):
            await own.flush()
        database.is_back = anyio.Event()
        for number, step in enumerate(steps):
            own.submit(step, lambda _, number=number: told.append(number))  # type: ignore[misc]
            await anyio.sleep(1)
        assert told == [1, 2], "the first one waits, and there is no room beside it"
        database.is_back.set()
        await anyio.sleep(1)
        assert told == [1, 2, 0]
    assert [notice.submission for notice in await kept(path)] == [steps[0].before.submission]
