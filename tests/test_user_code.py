"""The door to people's code: whatever that raises comes out as one error, and what is ours goes on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.errors import UsageError
from orchestrator.user_code import (
    RaisedPlainly,
    UserCodeError,
    awaited,
    call,
    each,
    each_awaited,
    import_function,
    load_function,
)
from tests.raising import IN_THREADS, KINDS, file_of_functions, raises, type_of

pytestmark = pytest.mark.anyio


def iterates(kind: str) -> Iterator[int]:
    yield 1
    raises(kind)


class Iterates:
    """What raises by itself, not within a generator, which would change some of it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __iter__(self) -> "Iterates":
        return self

    def __next__(self) -> int:
        raises(self.kind)

    def __aiter__(self) -> "Iterates":
        return self

    async def __anext__(self) -> int:
        raises(self.kind)


async def test_what_returns_is_returned() -> None:
    async def three() -> int:
        await anyio.lowlevel.checkpoint()
        return 3

    async def some() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert (call(max, 1, 2), await awaited(three()), list(each([1, 2]))) == (2, 3, [1, 2])
    assert [value async for value in each_awaited(some())] == [1, 2]


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_is_raised_comes_out_as_one_error_and_is_raised_plainly_to_its_caller(kind: str) -> None:
    async def waits() -> None:
        await anyio.lowlevel.checkpoint()
        raises(kind)

    with pytest.raises(UserCodeError) as called:
        call(raises, kind)
    with pytest.raises(UserCodeError) as waited:
        await awaited(waits())
    for caught in (called.value, waited.value):
        is_changed = isinstance(caught.error, RuntimeError)  # a coroutine makes that of an iterator's end
        assert is_changed or type(caught.error) is type_of(kind)
        assert str(caught)
        assert str(caught).encode()
        assert caught.trace()
        assert caught.is_exit is not isinstance(caught.error, Exception)
    if type_of(kind) not in (StopIteration, GeneratorExit):
        with pytest.raises(type_of(kind)), RaisedPlainly():
            raise called.value


@pytest.mark.parametrize("kind", KINDS)
async def test_iterables_let_nothing_past(kind: str) -> None:
    if type_of(kind) is not StopIteration:
        with pytest.raises(UserCodeError):
            list(each(Iterates(kind)))
    if type_of(kind) is not StopAsyncIteration:
        with pytest.raises(UserCodeError):
            [value async for value in each_awaited(Iterates(kind))]
    found: list[int] = []
    with pytest.raises(UserCodeError):
        found += each(iterates(kind))  # what has come before it has come
    assert found == [1]


async def test_the_end_of_a_scope_of_ours_goes_on_and_a_stray_cancellation_does_not() -> None:
    with anyio.move_on_after(0) as scope:
        await awaited(anyio.sleep_forever())
    assert scope.cancelled_caught

    async def gives_up() -> None:
        await asyncio.wait_for(asyncio.shield(asyncio.get_running_loop().create_future()), 0)

    async def is_cancelled() -> None:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    for wait in (gives_up, is_cancelled):
        with pytest.raises(UserCodeError):
            await awaited(wait())


async def test_a_coroutine_that_nobody_awaits_to_its_end_can_be_closed() -> None:
    async def forever() -> None:
        await anyio.sleep_forever()

    waiting = awaited(forever())
    waiting.send(None)
    await anyio.to_thread.run_sync(waiting.close)  # not in the task that it ran in


@pytest.mark.parametrize("kind", IN_THREADS)
async def test_a_thread_passes_the_error_on(kind: str) -> None:
    """`StopIteration` passes no future, and a cancellation looks like that of the task that waits."""
    with pytest.raises(UserCodeError):
        await anyio.to_thread.run_sync(call, raises, kind)


def test_ctrl_c_in_the_main_thread_is_a_persons() -> None:
    with pytest.raises(KeyboardInterrupt):
        call(raises, "interrupt")
    kept = signal.signal(signal.SIGINT, lambda *_: None)  # who answers to it raises nothing
    try:
        with pytest.raises(UserCodeError, match="KeyboardInterrupt"):
            call(raises, "interrupt")
    finally:
        signal.signal(signal.SIGINT, kept)


# --- loading


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"interrupt"}))
def test_a_module_that_raises_cannot_be_loaded(kind: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(f"from tests.raising import raises\nraises({kind!r})\n")
    with pytest.raises(UsageError, match="importing"):
        load_function(f"{tmp_path}/bad.py:step", "step")


def test_what_a_module_does_to_the_programs_signals_is_undone(tmp_path: Path) -> None:
    kept = signal.getsignal(signal.SIGTERM)
    text = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ndef step(row): return row\n"
    (tmp_path / "bold.py").write_text(text)
    assert load_function(f"{tmp_path}/bold.py:step", "step")(1) == 1
    assert signal.getsignal(signal.SIGTERM) is kept


def test_a_module_that_answers_for_its_members_may_raise_as_well(tmp_path: Path) -> None:
    (tmp_path / "sly.py").write_text("def __getattr__(name):\n    raise SystemExit(name)\n")
    with pytest.raises(UsageError, match="defines no step"):
        load_function(f"{tmp_path}/sly.py:step", "step")
    with pytest.raises(UsageError, match="json defines no function step"):
        import_function("json", "step", "--check json:step")
    assert load_function(f"{file_of_functions(tmp_path / 'many.py')}:exit", "step") is not None
