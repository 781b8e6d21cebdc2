"""What holds for every back end of the ledger: values in, values out, and nothing of how it is kept.

A back end is one more entry of `backends.BACKENDS`. How SQLite goes about it is tested in `tests/ledger/`.
"""

from pathlib import Path

import pytest

from tests.conformance.backends import BACKENDS, OpenBackend


@pytest.fixture(params=BACKENDS)
def open_backend(request: pytest.FixtureRequest, tmp_path: Path) -> OpenBackend:
    """Opens a ledger of each back end."""
    return BACKENDS[request.param](tmp_path)
