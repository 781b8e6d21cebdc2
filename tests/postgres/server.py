"""The server of a run of the tests: one for all of its processes, started by the first one that needs it.

`ORCHESTRATOR_TEST_POSTGRES` names another one, as a URL, whose role may create databases:

    ORCHESTRATOR_TEST_POSTGRES=postgresql://me@db.example/postgres make unit LEDGER=postgresql
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from tests.postgres.binaries import binaries
from tests.postgres.keeper import DURABLE, USER

NAMED: Final = "ORCHESTRATOR_TEST_POSTGRES"
ROOT: Final = Path(__file__).resolve().parents[2]
_AT: Final = f"postgresql://{USER}@/postgres?host="


@contextmanager
def server_url(shared: Path, *, is_durable: bool = False) -> Iterator[str]:
    """The URL of a server that is there for as long as any process is in here with the same folder `shared`. What is
    committed is on its disk if it `is_durable`: one of our own, whichever is named.
    """
    named = None if is_durable else os.environ.get(NAMED)
    if named is not None:
        yield named
        return
    users, place = shared / "postgres.users", shared / "postgres.place"
    # Locks of the whole process, not of an open file: a process that was forked from this one does not have them.
    with users.open("a+b") as used, place.open("a+", encoding="utf-8") as told:
        fcntl.lockf(used, fcntl.LOCK_SH)
        fcntl.lockf(told, fcntl.LOCK_EX)
        told.seek(0)
        data = told.read()
        keeper = None
        if not Path(data or "/nowhere").exists():
            keeper, data = _kept(users, is_durable)
            told.truncate(0)
            told.write(data)
            told.flush()
        fcntl.lockf(told, fcntl.LOCK_UN)
        try:
            yield f"{_AT}{data}"
        finally:
            fcntl.lockf(used, fcntl.LOCK_UN)
            if keeper is not None:
                keeper.wait()  # and with it for the other processes: so the tests end after their server


@contextmanager
def away(url: str) -> Iterator[None]:
    """A server of our own is killed, as on a machine that goes down, and starts again on leaving."""
    data = data_of(url)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        programs = binaries(Path(folder))
        programs.run("pg_ctl", "stop", "-D", data, "-m", "immediate", within=data)
        yield
        programs.run("pg_ctl", "start", "-D", data, "-l", data / "log", "--wait", within=data)


def restart(url: str) -> None:
    """It is killed and starts again at once."""
    with away(url):
        pass


def dumped(url: str) -> bytes:
    """All that is in a database of a server of our own, as `pg_dump` writes it: `bytea` in hexadecimal."""
    data = data_of(url)
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        file = data / "dump.sql"
        binaries(Path(folder)).run("pg_dump", "--dbname", url, "--file", file, within=data)
    found = file.read_bytes()
    file.unlink()
    return found


def data_of(url: str) -> Path:
    """The folder of the data of a server of our own, at which a database is at `url`."""
    return Path(parse_qs(urlsplit(url).query)["host"][0])


def _kept(users: Path, is_durable: bool) -> tuple[subprocess.Popen[str], str]:
    """A new keeper, and where its server is."""
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.postgres.keeper", users, *([DURABLE] if is_durable else [])],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert keeper.stdout is not None
    with keeper.stdout as said:
        data = said.readline().strip()
    assert data, "the keeper of the tests' server could not start it; what it said is above"
    return keeper, data
