"""The back ends that a ledger can have; each has to pass every test of this folder."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Protocol

from orchestrator.clock import Clock
from orchestrator.ledger import Ledger
from tests.ledger.ledgers import opened


class OpenBackend(Protocol):
    """Opens the ledger of a test, the same one each time."""

    def __call__(self, *, clock: Clock | None = None) -> AbstractAsyncContextManager[Ledger]: ...


def sqlite(folder: Path) -> OpenBackend:
    """A ledger in a file."""

    def opens(*, clock: Clock | None = None) -> AbstractAsyncContextManager[Ledger]:
        return opened(folder / "l.db", clock=clock)

    return opens


BACKENDS: Final[Mapping[str, Callable[[Path], OpenBackend]]] = {"sqlite": sqlite}
