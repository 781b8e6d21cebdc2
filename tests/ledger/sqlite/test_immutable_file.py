"""A ledger in a folder that cannot be written is read as it stands."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.ledger.sqlite.immutable_file import connected, is_fixed
from tests.ledger.ledgers import a_run, opened

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def no(_folder: Path) -> bool:
    return False


async def test_what_nobody_writes_is_read_without_anything_beside_it(tmp_path: Path) -> None:
    async with opened(tmp_path / "l.db") as ledger:
        await a_run(ledger)
        assert not is_fixed(tmp_path / "l.db", no), "somebody has it open"
    assert is_fixed(tmp_path / "l.db", no)
    assert not is_fixed(tmp_path / "l.db"), "it can be written"
    assert not is_fixed(tmp_path / "other.db", no), "there is none"

    folder = tmp_path / "a folder of 100 %?"
    folder.mkdir()
    copy = folder / "c#.db"
    shutil.copy(tmp_path / "l.db", copy)
    with closing(connected(copy, can_write=no)) as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            connection.execute("DELETE FROM jobs")
    assert list(folder.iterdir()) == [copy]
