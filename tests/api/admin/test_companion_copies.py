"""What lies beside a ledger goes along with it, whole, whatever was cut off or rehearsed before."""

import os
import resource
from pathlib import Path

import anyio
import pytest

from orchestrator.api.admin.ledger_copy import ledger_copy
from orchestrator.core.service.webhook_token import KEY_BYTES
from orchestrator.errors import StorageError, UsageError
from orchestrator.ledger import Ledger
from orchestrator.settings.addresses.companions import Companion, companion_of
from orchestrator.units import MIB
from tests.ledger.ledgers import a_run, write_ledger

KEY, OTHER_KEY = b"k" * KEY_BYTES, b"o" * KEY_BYTES
FILES = {"file-1": b"one", "file-2": b"2" * 2 * MIB, "file-3": b"three"}
BESIDE = {
    ".key": KEY,
    **{f".files/{name}": content for name, content in FILES.items()},
    ".dashboard/key": b"d" * 32,
    ".dashboard/link-new": b"",
    ".traces": b"7\n",
}


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger with all that lies beside one, and where another one is to be."""

    async def made(ledger: Ledger) -> None:
        await a_run(ledger)

    write_ledger(tmp_path / "of.db", made)
    lay(tmp_path / "of.db", BESIDE)
    return tmp_path / "of.db", tmp_path / "to.db"


def lay(ledger: Path, beside: dict[str, bytes]) -> None:
    """Puts that beside `ledger`, all of it for its owner alone."""
    for name, content in beside.items():
        path = Path(f"{ledger}{name}")
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)


def beside(ledger: Path) -> dict[str, bytes]:
    """What lies there, hidden files too."""
    places = [companion_of(ledger, each) for each in Companion if each not in {Companion.LOCK, Companion.SENT_MARKS}]
    found = [file for place in places for file in ([place] if place.is_file() else place.rglob("*"))]
    return {str(file)[len(str(ledger)) :]: file.read_bytes() for file in found}


def test_what_was_cut_off_half_way_is_whole_once_the_command_is_given_again(places: tuple[Path, Path]) -> None:
    of, to = places
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, usual[1]))  # as on a full disk
    try:
        with pytest.raises(StorageError, match=f"cannot write {to}.files/file-2: File too large; free space"):
            anyio.run(ledger_copy, of, to)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert "file-2" not in "".join(beside(to))
    assert not to.exists()

    copied = anyio.run(ledger_copy, of, to)
    assert beside(to) == beside(of) == BESIDE
    assert copied.beside == tuple(f"{to}{name}" for name in (".key", ".files", ".dashboard", ".traces"))
    assert {path.stat().st_mode & 0o777 for path in to.parent.glob("to.db.*/*")} == {0o600}
    assert companion_of(to, Companion.POSTED_FILES).stat().st_mode & 0o777 == 0o700


def test_of_what_was_rehearsed_there_nothing_old_is_left(places: tuple[Path, Path]) -> None:
    of, to = places
    lay(to, {".key": KEY, ".files/file-1": b"one", ".files/file-2": b"2", ".files/file-gone": b"0"})
    lay(to, {".dashboard/key": b"e" * 32, ".dashboard/link-used": b"", ".traces": b"3\n"})
    lay(of, {".files/file-1": b"one"})
    same = Path(f"{to}.files/file-1")
    times = Path(f"{of}.files/file-1").stat()
    os.utime(same, ns=(times.st_atime_ns, times.st_mtime_ns))
    number = same.stat().st_ino
    anyio.run(ledger_copy, of, to)
    assert beside(to) == {**BESIDE, ".files/file-gone": b"0"}  # of which no row tells, so that it is swept up
    assert same.stat().st_ino == number


def test_another_key_is_refused_and_one_that_was_cut_off_is_none(places: tuple[Path, Path]) -> None:
    of, to = places
    lay(to, {".key": OTHER_KEY})
    with pytest.raises(UsageError) as refused:
        anyio.run(ledger_copy, of, to)
    assert str(refused.value) == (
        f"{to}.key: this is another webhook key than {of}.key, by which what is at the service is known; move it away,"
        " and give the command again"
    )
    assert beside(to) == {".key": OTHER_KEY}
    assert not to.exists()
    lay(to, {".key": b""})
    anyio.run(ledger_copy, of, to)
    assert beside(to) == BESIDE


def test_what_cannot_be_read_is_named(places: tuple[Path, Path]) -> None:
    of, to = places
    companion_of(of, Companion.TRACES).unlink()
    companion_of(of, Companion.TRACES).mkdir()
    lay(to, {".traces": b"3\n"})
    with pytest.raises(StorageError, match=f"{to}.traces: cannot be copied from {of}.traces .File exists.; see to"):
        anyio.run(ledger_copy, of, to)
    assert not to.exists()
