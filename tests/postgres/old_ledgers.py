"""Ledgers on a server as older programs left them."""

from pathlib import Path

import asyncpg

OLDEST = "0048"
"""The first version that could be on a server."""

_MADE = Path(__file__).with_name(f"made_by_{OLDEST}.sql")


async def make_oldest(url: str) -> None:
    """Makes one in the empty database at `url`."""
    connection = await asyncpg.connect(url)
    await connection.execute(_MADE.read_text())
    await connection.close()
