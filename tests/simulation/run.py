"""Runs an async function in a world of its own on virtual time, to its end or to a simulated crash."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Never, TypeVar

import anyio

from tests.simulation.loop import LoopCrashed, VirtualLoop, running_loop

T = TypeVar("T")


class Crash:
    """The trigger of a simulated crash: made outside a world, pulled inside it, good for one world after another."""

    at_s: float | None = None
    """The loop's time at which it was last pulled."""

    def pull(self) -> None:
        """Kill the running world. The caller's step runs on to its next `await`; nothing else ever runs."""
        loop = running_loop()
        loop.crash()
        self.at_s = loop.crashed_at_s

    async def here(self) -> Never:
        """Kill the running world at this very place."""
        self.pull()
        while True:
            await anyio.sleep_forever()


def run(main: Callable[[], Awaitable[T]], *, seed: int = 0, start_s: float = 0.0) -> T:
    """Run `main` on a fresh virtual loop and return what it returns.

    Args:
        main: the async function.
        seed: of `running_loop().random`.
        start_s: the loop's time to begin with, in virtual seconds.

    Raises:
        DeadlockError: nothing could happen any more before `main` had ended.
    """
    loop_factory = partial(VirtualLoop, seed=seed, start_s=start_s)
    return anyio.run(main, backend_options={"loop_factory": loop_factory})


def run_until_crash(main: Callable[[], Awaitable[object]], *, seed: int = 0, start_s: float = 0.0) -> float | None:
    """Run `main` as `run` does, but let it be killed by `Crash.pull` or `Crash.here`.

    After a crash nothing of the world has been cleaned up: no `finally`, no shielded scope. Only what it had on disk
    is left, since its database connections are closed without a commit; what was in a transaction is rolled back
    by the next to open the file.

    Returns:
        The loop's time of the crash, to be handed as `start_s` to the world that follows; None when `main` ended first.
    """
    loops: list[VirtualLoop] = []

    def loop_factory() -> VirtualLoop:
        loops.append(VirtualLoop(seed=seed, start_s=start_s))
        return loops[0]

    try:
        anyio.run(main, backend_options={"loop_factory": loop_factory})
    except LoopCrashed:
        return loops[0].crashed_at_s
    return None
