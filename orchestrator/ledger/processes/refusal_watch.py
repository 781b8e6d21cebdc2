"""A server that lets a process in no more: its password was changed, a right was taken away. Waiting cures nothing, and
whoever only waited would be there for nobody.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from orchestrator.errors import LedgerUnavailableError, StorageError
from orchestrator.ledger.postgres.server_errors import server_errors
from orchestrator.units import SECOND_US

REFUSED_US: Final = 30 * SECOND_US
"""So long whoever changes a password or a right may be at it."""


class RefusalWatch:
    """Of what a process asks again and again on one line to the ledger called `name`, whose time `now` tells. `end` is
    called with why, once nothing has been answered since a refusal for `REFUSED_US`.
    """

    def __init__(self, name: str, now: Callable[[], int], end: Callable[[str], None]) -> None:
        self._name = name
        self._now = now
        self._end = end
        self._since: int | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """It is asked within the block. What the server says there of itself is raised as `StorageError`."""
        try:
            with server_errors(self._name):
                yield
        except LedgerUnavailableError:  # that may pass, and says nothing of the rest
            raise
        except StorageError as error:
            if self._since is None:
                self._since = self._now()
            if self._now() - self._since >= REFUSED_US:
                self._end(
                    f"{error.message}. It has been so for {REFUSED_US // SECOND_US} s: nothing more is sent from here"
                )
            raise
        self._since = None
