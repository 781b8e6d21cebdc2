"""What holds for a ledger whatever is beneath it: values in, values out, and nothing of how it is kept.

How SQLite goes about it is tested in `tests/ledger/`.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.ledger.ledgers import OpenLedger, opened
from tests.ledger.sqlite.recording import recorded


@pytest.fixture
def sent(request: pytest.FixtureRequest) -> Iterator[set[str]]:
    """The statements that a test's ledger sends to SQLite, all of which were recorded."""
    with recorded(request.config) as sent:
        yield sent


@pytest.fixture
def open_file(tmp_path: Path, sent: set[str]) -> OpenLedger:
    """Opens the ledger of a test, the same one each time."""
    return partial(opened, tmp_path / "l.db", sent=sent)
