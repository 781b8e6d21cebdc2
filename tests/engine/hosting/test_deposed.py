"""A process whose place another one has taken: what it hears late is for that one, and nothing else of it is written."""

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.job_record import Record
from orchestrator.errors import DeposedError, leading
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.schema.job_tables import metadata
from tests.engine.hosting.test_owned import GONE, JOBS, all_sent, owned
from tests.engine.process import Process
from tests.engine.scripted import COMPLETED, Asked, Reply, Scripted, numbered
from tests.postgres.databases import Databases
from tests.postgres.ledgers import waited_for
from tests.postgres.owners import taken_over

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

LATE_S = 8.0
"""How long answers take that come once the place is lost."""

ANSWERED = 3
"""So many submissions are answered before."""


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    with databases.one() as url:
        yield url


def accepts_late(after: int = ANSWERED) -> Scripted:
    """A service that answers the first submissions at once, and everything else late."""
    accepted, sent = numbered(), 0

    def run(asked: Asked) -> Reply:
        nonlocal sent
        sent += 1
        return accepted(asked)._replace(after_s=0.0 if sent <= after else LATE_S)

    return Scripted(run=run, status=COMPLETED._replace(after_s=LATE_S))


async def deposed(tmp_path: Path, url: str, transport: Scripted, then: Callable[[], Awaitable[object]]) -> None:
    """A process is declared dead once it has sent everything, and `then` something is done; it hears what was on its
    way, and ends.
    """
    async with owned(tmp_path, url, transport) as p:
        await p.begin()
        await all_sent(transport)
        await p.until(State.OUTSTANDING, ANSWERED)
        await anyio.sleep(1)
        await taken_over(url, GONE)
        await then()
        await anyio.sleep_forever()


async def is_deposed(tmp_path: Path, url: str, transport: Scripted, then: Callable[[], Awaitable[object]]) -> None:
    """The same, with what it ends by."""
    with pytest.raises(BaseExceptionGroup) as ended:
        await deposed(tmp_path, url, transport, then)
    assert isinstance(leading(ended.value), DeposedError)


async def rows(url: str) -> dict[str, list[Any]]:
    """All that a ledger holds, but for who works on it and what was noted."""
    connection = await waited_for(url)({}, LineBounds())
    found = {
        name: sorted(map(repr, await connection.fetch(f"SELECT * FROM {name}")))
        for name in sorted({*metadata.tables} - {"notices"})
    }
    connection.terminate()
    return found


async def noted(p: Process) -> list[Record]:
    """What was noted."""
    found = (await p.ledger.jobs.notices.after(0, most=99, bytes_max=1 << 20)).notices
    return [notice.record for notice in found if notice.record is not None]


async def test_of_a_deposed_one_nothing_is_written_but_what_it_heard(tmp_path: Path, url: str) -> None:
    before: list[dict[str, list[Any]]] = []

    async def look() -> None:
        before.append(await rows(url))

    await is_deposed(tmp_path, url, accepts_late(), look)
    assert [await rows(url)] == before
    async with owned(tmp_path, url, Scripted()) as p:
        found = await noted(p)
    assert sorted(record.status for record in found) == ["COMPLETED"] * ANSWERED + ["IN_QUEUE"] * (JOBS - ANSWERED)
    assert sorted(record.remote_id or "" for record in found) == [f"r-{n}" for n in range(1, JOBS + 1)]


async def test_a_successor_takes_what_its_predecessor_hears_and_pays_nothing_twice(tmp_path: Path, url: str) -> None:
    """The answers come when it has begun, and counts their submissions as uncertain."""
    transport = Scripted(status=COMPLETED)
    lost = anyio.Event()
    for name in "ab":
        (tmp_path / name).mkdir()

    async def lose() -> None:
        lost.set()

    async with anyio.create_task_group() as both:
        both.start_soon(is_deposed, tmp_path / "a", url, accepts_late(), lose)
        await lost.wait()
        async with owned(tmp_path / "b", url, transport, watch_every_s=0.25) as p:
            recovered = await p.begin()
            assert (recovered.outstanding, recovered.uncertain) == (ANSWERED, JOBS - ANSWERED)
            await p.finish()
            counts = await p.counts()
            assert (counts["uncertain_seen"], counts["uncertain_adopted"]) == (JOBS - ANSWERED,) * 2
            assert {result.paid_at_most for result in await p.results()} == {1}
            await anyio.sleep(1)
            assert await p.ledger.jobs.notices.count() == 0
    assert transport.of("run") == []
