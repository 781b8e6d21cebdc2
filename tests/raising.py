"""Every way in which people's code may end otherwise than by returning: for whoever calls such code."""

import asyncio
import concurrent.futures
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn


class OfTheirOwn(BaseException):
    """No `Exception`, and none that Python knows."""


class Mute(Exception):
    """Nobody can print it."""

    def __str__(self) -> str:
        raise SystemExit("nobody prints this")


def _from_a_loop_inside() -> NoReturn:
    async def cancels_itself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.get_running_loop().create_future()

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(cancels_itself())
    finally:
        loop.close()
    raise AssertionError


def _raised(error: BaseException | type[BaseException]) -> Callable[[], NoReturn]:
    def raises() -> NoReturn:
        raise error

    return raises


KINDS: Final[dict[str, Callable[[], NoReturn]]] = {
    "error": _raised(ValueError("bad seed")),
    "mute": _raised(Mute),
    "surrogate": _raised(RuntimeError("\ud800")),
    "stop_iteration": _raised(StopIteration),
    "stop_async_iteration": _raised(StopAsyncIteration),
    "recursion": _raised(RecursionError),
    "memory": _raised(MemoryError),
    "cancelled": _raised(asyncio.CancelledError("theirs")),
    "cancelled_future": _raised(concurrent.futures.CancelledError),
    "time_out": _raised(TimeoutError),
    "exit": _raised(SystemExit(3)),
    "interrupt": _raised(KeyboardInterrupt),
    "generator_exit": _raised(GeneratorExit),
    "own": _raised(OfTheirOwn("gone")),
    "group": _raised(BaseExceptionGroup("both", [asyncio.CancelledError(), SystemExit(1)])),
}

FROM_A_LOOP: Final = "cancelled_in_a_loop"
"""Only where no event loop runs: people's code has one of its own then."""

IN_THREADS: Final = {**KINDS, FROM_A_LOOP: _from_a_loop_inside}


def raises(kind: str) -> NoReturn:
    """Raises what `kind` does."""
    IN_THREADS[kind]()


def file_of_functions(path: Path) -> Path:
    """A file of the user's with a function for each kind, which takes one value and raises."""
    lines = [f"def {kind}(value):\n    raises({kind!r})\n" for kind in IN_THREADS]
    path.write_text("from tests.raising import raises\n\n" + "\n".join(lines))
    return path


def type_of(kind: str) -> type[BaseException]:
    """What `raises` raises."""
    try:
        raises(kind)
    except BaseException as error:  # noqa: BLE001  whatever it is
        return type(error)
