"""What libraries load that we do not use is not loaded before somebody asks for it."""

import subprocess
import sys

import pytest

ORM_ASKED_FOR_LATER = """
import sys
import orchestrator.ledger
assert "sqlalchemy.orm" not in sys.modules
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
assert AsyncConnection is orchestrator.ledger.writer.AsyncConnection
assert AsyncSession.__module__ == "sqlalchemy.ext.asyncio.session"
"""
ORM_LOADED_BEFORE = """
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
import orchestrator.ledger
assert AsyncConnection is orchestrator.ledger.writer.AsyncConnection
"""
HTTPX_WITHOUT_ITS_COMMAND_LINE = """
import sys
import orchestrator.client
assert "pygments" not in sys.modules
import httpx, httpx._main, rich
assert httpx.Client and httpx._main.main
"""
HTTPX_LOADED_BEFORE = """
import httpx
import orchestrator.client
assert orchestrator.client.transport.httpx is httpx
"""
TEMPLATES_ASKED_FOR_LATER = """
import sys
import orchestrator.cli, orchestrator.api.look
assert "jinja2" not in sys.modules
"""


@pytest.mark.parametrize(
    "program",
    [
        ORM_ASKED_FOR_LATER,
        ORM_LOADED_BEFORE,
        HTTPX_WITHOUT_ITS_COMMAND_LINE,
        HTTPX_LOADED_BEFORE,
        TEMPLATES_ASKED_FOR_LATER,
    ],
)
def test_nobody_misses_what_is_not_loaded(program: str) -> None:
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
