"""What libraries load that we do not use is not loaded before somebody asks for it."""

import subprocess
import sys

import pytest

ASKED_FOR_LATER = """
import sys
import orchestrator.ledger, orchestrator.client
assert "sqlalchemy.orm" not in sys.modules
assert "pygments" not in sys.modules
assert "asyncpg" not in sys.modules and "sqlalchemy.dialects.postgresql.asyncpg" not in sys.modules
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
assert AsyncConnection is orchestrator.ledger.transactions.batch_write.AsyncConnection
assert AsyncSession.__module__ == "sqlalchemy.ext.asyncio.session"
import httpx, httpx._main, rich
assert httpx.Client and httpx._main.main
"""
LOADED_BEFORE = """
import httpx
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
import orchestrator.ledger, orchestrator.client.http.transport
assert AsyncConnection is orchestrator.ledger.transactions.batch_write.AsyncConnection
assert orchestrator.client.http.transport.httpx is httpx
"""


@pytest.mark.parametrize(
    "program",
    [ASKED_FOR_LATER, pytest.param(LOADED_BEFORE, marks=pytest.mark.slow)],
    ids=["asked for later", "loaded before"],
)
def test_nobody_misses_what_is_not_loaded(program: str) -> None:
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_pages_are_served_without_what_asks_the_service_or_works_on_jobs() -> None:
    """It lasts for as long as anybody looks, and that alone would be an eighth of its memory."""
    unwanted = ("aiohttp", "orchestrator.engine.hosting", "orchestrator.engine.sending", "tenacity", "pyarrow")
    program = (
        f"import sys, orchestrator.dashboard.process\nprint(*(name for name in {unwanted!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
