"""What holds for a ledger whatever is beneath it: values in, values out, and nothing of how it is kept.

How each database goes about it is tested in `tests/ledger/`. Each test here runs on each of `BACKENDS`.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from orchestrator.clock import Clock
from orchestrator.ledger import Ledger
from tests.ledger.ledgers import OpenLedger, interrupted, opened
from tests.ledger.signalling import all_signalled
from tests.ledger.sqlite.recording import recorded
from tests.postgres.databases import Databases
from tests.postgres.ledgers import opened_on_server

BACKENDS = ("sqlite", "interrupted", "postgresql")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a server, and where each transaction is interrupted, the first test of each module is tried before each commit;
    `make unit LEDGER=postgresql` tries all of a server.
    """
    tried = set()
    for item in items:
        backend = next((each for each in BACKENDS[1:] if f"[{each}" in item.name), None)
        if backend is not None:
            if (item.path, backend) in tried:
                item.add_marker(pytest.mark.slow)
            tried.add((item.path, backend))


@pytest.fixture(params=BACKENDS)
def open_file(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLedger]:
    """Opens the ledger of a test, the same one each time."""
    if request.param == "sqlite":
        with recorded(request.config) as sent:
            yield partial(_opened, tmp_path / "l.db", sent)
        return
    if request.param == "interrupted":
        yield partial(interrupted, tmp_path / "l.db")
        return
    databases: Databases = request.getfixturevalue("databases")
    with databases.one() as url:
        yield partial(opened_on_server, url)


@asynccontextmanager
async def _opened(path: Path, sent: set[str], *, clock: Clock | None = None) -> AsyncIterator[Ledger]:
    """A ledger in a file, where whatever changes what engines go by is found to be signalled to those of other processes."""
    async with opened(path, clock=clock, sent=sent) as ledger, all_signalled(ledger):
        yield ledger
