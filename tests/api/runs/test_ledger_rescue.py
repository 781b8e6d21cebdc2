"""What is said and saved when a file of an open ledger is not in its place any more."""

from pathlib import Path

import pytest

from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from tests.ledger.ledgers import a_run, dump, opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the ledger's own, named as the system names it."""
    folder = tmp_path.resolve() / "w"
    folder.mkdir()
    return folder


def deleted(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def moved(folder: Path, there: Path) -> None:
    folder.rename(there)


def copies(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.rescued-*"))


async def told(ledger: Ledger) -> str:
    with pytest.raises(StorageError) as raised:
        async with rescuing(ledger):
            raise ValueError("whatever comes of it")
    return str(raised.value)


async def test_a_copy_holds_all_that_was_committed_and_overwrites_nothing(folder: Path) -> None:
    async with opened(folder / "l.db") as ledger:
        await a_run(ledger, 3)
        whole = dump(folder / "l.db")
        assert ledger.place.lost() is None
        deleted(folder)
        first, second = await told(ledger), await told(ledger)

    copy = folder / "l.db.rescued-20260101T000000Z"
    assert first.endswith(f"All of it was saved as {copy}: go on with --ledger {copy}")
    assert second.endswith(f"--ledger {copy}-2")
    assert [dump(each) for each in copies(folder)] == [whole, whole]


async def test_what_is_whole_somewhere_is_named_and_not_copied(folder: Path) -> None:
    there = folder.with_name("there")
    async with opened(folder / "l.db") as ledger:
        await a_run(ledger)
        moved(folder, there)
        assert f"is now {there / 'l.db'}" in await told(ledger)
    assert copies(there.parent) == []
