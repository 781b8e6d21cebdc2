"""What libraries load that we do not use is not loaded before somebody asks for it."""

import subprocess
import sys

import pytest

ASKED_FOR_LATER = """
import sys
import orchestrator.ledger, orchestrator.client
assert "sqlalchemy.orm" not in sys.modules
assert "pygments" not in sys.modules
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
assert AsyncConnection is orchestrator.ledger.transactions.group_commit.AsyncConnection
assert AsyncSession.__module__ == "sqlalchemy.ext.asyncio.session"
import httpx, httpx._main, rich
assert httpx.Client and httpx._main.main
"""
LOADED_BEFORE = """
import httpx
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
import orchestrator.ledger, orchestrator.client
assert AsyncConnection is orchestrator.ledger.transactions.group_commit.AsyncConnection
assert orchestrator.client.http.transport.httpx is httpx
"""


@pytest.mark.parametrize("program", [ASKED_FOR_LATER, LOADED_BEFORE], ids=["asked for later", "loaded before"])
def test_nobody_misses_what_is_not_loaded(program: str) -> None:
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
