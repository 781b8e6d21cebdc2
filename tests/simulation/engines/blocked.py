"""Who waits for a lock at a server, asked beside the virtual loop, in a thread of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import asyncpg
from anyio.from_thread import start_blocking_portal

_BLOCKED: Final = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Onlooker:
    """Somebody who has a look at the server at `url` now and then, in no time."""

    def __init__(self, url: str, portal: Any) -> None:
        self._portal = portal
        self._driver = portal.call(asyncpg.connect, url)

    def blocked(self) -> set[int]:
        """The processes of the server that wait for a lock, in this database."""
        return {row["pid"] for row in self._portal.call(self._driver.fetch, _BLOCKED)}

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What it answers."""
        return [tuple(row) for row in self._portal.call(self._driver.fetch, query)]

    def do(self, statements: str) -> None:
        """Has it done."""
        self._portal.call(self._driver.execute, statements)

    def close(self) -> None:
        """Ends its connection."""
        self._portal.call(self._driver.close)


@contextmanager
def looking_at(url: str) -> Iterator[Onlooker]:
    """Somebody who looks at that database while the block runs."""
    with start_blocking_portal() as portal:
        onlooker = Onlooker(url, portal)
        try:
            yield onlooker
        finally:
            onlooker.close()
