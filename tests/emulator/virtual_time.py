"""An event loop on which waiting takes no time: its selector moves the loop's clock to the next timer instead."""

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

from orchestrator.clock import SECOND

START_AT = 1_700_000_000 * SECOND


class _JumpingSelector(selectors.DefaultSelector):
    """Polls, and where the real one would sleep, advances the loop's time."""

    elapsed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("deadlock: nothing is ready and no timer is set")
        if not ready and timeout is not None:
            self.elapsed_s += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed_s


class LoopClock:
    """The running loop's time, as the program's clock."""

    def now(self) -> int:
        return START_AT + round(asyncio.get_running_loop().time() * SECOND)


VIRTUAL_BACKEND: tuple[str, Mapping[str, Any]] = ("asyncio", {"loop_factory": VirtualLoop})
"""For a module's `anyio_backend` fixture."""
