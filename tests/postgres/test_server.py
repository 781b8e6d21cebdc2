"""The server of the tests: who comes second uses the first one's, and it ends with them, however they end."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg
import pytest

from tests.postgres.server import NAMED, ROOT, data_of, server_url

USES: Final = """
import sys
from pathlib import Path
from tests.postgres.server import server_url
with server_url(Path(sys.argv[1])) as url:
    print(url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def user(shared: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that uses the server until its stdin ends. Its stderr is also that of the keeper whom it starts."""
    process = subprocess.Popen(
        [sys.executable, "-c", USES, shared],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        yield process
        process.kill()


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def asked(url: str, question: str) -> Any:
    async def ask() -> Any:
        connection = await asyncpg.connect(url)
        try:
            return await connection.fetchval(question)
        finally:
            await connection.close()

    return asyncio.run(ask())


@pytest.mark.slow
def test_it_ends_after_the_last_one_who_uses_it_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NAMED, raising=False)
    with user(tmp_path) as first:
        url = url_of(first)
        folder = data_of(url)
        with user(tmp_path) as second:
            assert url_of(second) == url
            first.kill()
            first.wait()
            assert int(asked(url, "SHOW server_version_num")) >= 150_000
        assert first.stderr is not None
        assert first.stderr.read() == ""  # to its end, which is that of the keeper
        assert not folder.exists()
        with server_url(tmp_path) as later:  # nobody is left with an address of nothing
            assert later != url
            assert asked(later, "SELECT 1") == 1


def test_another_server_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAMED, "postgresql://me@db.example/postgres")
    with server_url(tmp_path) as url:
        assert url == "postgresql://me@db.example/postgres"
    assert list(tmp_path.iterdir()) == []
