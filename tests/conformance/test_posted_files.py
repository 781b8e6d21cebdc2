"""Files of the Batch API: there once their row is, seen by their owner alone, never more than fit in."""

import pytest
from msgspec.structs import replace

from orchestrator.core.batch_api.posted_file import PostedFile, Purpose
from tests.ledger.ledgers import OpenLedger

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

FILE = PostedFile(
    id="file-1", owner="a", filename="in.jsonl", purpose=Purpose.BATCH, size=10, created_at=1_000, expires_at=2_000
)
PLENTY = 1_000


def files(*numbers: int) -> list[PostedFile]:
    return [replace(FILE, id=f"file-{n}") for n in numbers]


async def test_a_file_is_found_by_its_owner_until_it_is_removed_also_by_other_processes(open_file: OpenLedger) -> None:
    async with open_file() as ledger, open_file() as other:
        assert await ledger.runs.posted.files.add(FILE, bytes_max=PLENTY)
        assert await other.runs.posted.files.one("a", "file-1") == FILE
        assert await other.runs.posted.files.one("b", "file-1") is None
        assert await other.runs.posted.files.known(["file-1", "file-2"]) == {"file-1"}
        assert await other.runs.posted.files.remove(["file-1", "file-2"]) == 1
        assert await ledger.runs.posted.files.one("a", "file-1") is None


async def test_what_would_be_too_much_together_is_not_added(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        posted = ledger.runs.posted.files
        assert await posted.add(FILE, bytes_max=19)
        assert not await posted.add(replace(FILE, id="file-2", owner="b"), bytes_max=19)
        assert await ledger.runs.posted.totals.now() == (10, None, {}, {})
        for bytes_max in (19, 20):
            await posted.bound(bytes_max)
            assert (await ledger.runs.posted.totals.now()).bytes_max == bytes_max
        assert await posted.add(replace(FILE, id="file-2", owner="b"), bytes_max=20)
        assert await posted.stored_bytes() == 20


async def test_a_list_is_read_a_page_at_a_time_whatever_is_removed_meanwhile(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        posted = ledger.runs.posted.files
        for each in (*files(1, 2, 3), replace(FILE, id="file-4", purpose=Purpose.BATCH_OUTPUT)):
            await posted.add(each, bytes_max=PLENTY)
        await posted.add(replace(FILE, id="other", owner="b"), bytes_max=PLENTY)

        async def ids(after: str | None = None, *, most: int = 10, first: bool = False) -> list[str]:
            return [each.id for each in await posted.page("a", after=after, most=most, is_oldest_first=first)]

        assert await ids() == ["file-4", "file-3", "file-2", "file-1"]
        assert await ids("file-3", most=1) == ["file-2"]
        assert await ids("file-2", first=True) == ["file-3", "file-4"]
        assert await ids("other") == []
        found = await posted.page("a", after=None, most=9, purpose=Purpose.BATCH_OUTPUT)
        assert [each.id for each in found] == ["file-4"]


async def test_those_are_found_that_have_expired(open_file: OpenLedger) -> None:
    async with open_file() as ledger:
        posted = ledger.runs.posted.files
        await posted.add(FILE, bytes_max=PLENTY)
        await posted.add(replace(FILE, id="kept", expires_at=None), bytes_max=PLENTY)
        assert await posted.expired(1_999) == []
        assert await posted.expired(2_000) == [FILE]
