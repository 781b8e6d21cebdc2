"""What holds for a ledger whatever is beneath it: values in, values out, and nothing of how it is kept.

How SQLite goes about it is tested in `tests/ledger/`.
"""

from functools import partial
from pathlib import Path

import pytest

from tests.ledger.ledgers import OpenLedger, opened


@pytest.fixture
def open_file(tmp_path: Path) -> OpenLedger:
    """Opens the ledger of a test, the same one each time."""
    return partial(opened, tmp_path / "l.db")
