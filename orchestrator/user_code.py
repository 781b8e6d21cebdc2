"""The one door to people's code: steps, checks, handlers, inputs, templates, and the modules that these stand in.

Whatever their code raises, from here comes `UserCodeError`, or `UsageError` where it is looked for: an exit, a stray
cancellation or a `StopIteration` would otherwise end, or leave hanging, whoever happened to call. Who catches it has a
failed job, or raises what it carries to the caller whose code that was. What is ours goes on: the cancellation of a
scope of ours, the end of a coroutine that nobody runs any more, and a person's Ctrl-C.

It needs nothing but the standard library, since the process that runs steps and checks begins with it.
"""

import importlib
import importlib.util
import math
import signal
import sys
import threading
import traceback
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

from orchestrator.errors import UsageError

P = ParamSpec("P")
T = TypeVar("T")

LOADED_PREFIX: Final = "_handler_"
"""Begins the name of a module that was loaded from a user's file."""

UNPRINTABLE: Final = "(the error cannot be printed)"

_OURS: Final = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that the program answers to."""


class UserCodeError(Exception):
    """People's code has raised `error`; its text is that in a line. Only an `Exception`: it passes every future."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(in_words(error))
        self.error = error

    @property
    def is_exit(self) -> bool:
        """Whether it was no ordinary error: what code raises to end a program, a task or a generator."""
        return not isinstance(self.error, Exception)

    @property
    def message(self) -> str:
        """What the error says, without its kind."""
        return error_message(self.error)

    def trace(self, limit: int | None = None) -> str:
        """The error with the places where it was raised: the last -`limit` of them."""
        return trace_of(self.error, limit)


def in_words(error: BaseException) -> str:
    """The kind of an error of people's code, and what it says."""
    message = error_message(error)
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def absolute(path: Path) -> Path:
    """`path` from wherever the process comes to be: people's code may change the folder that paths count from."""
    try:
        return path.absolute()
    except OSError:  # the folder is gone: whoever uses the path says so
        return path


def here() -> Path:
    """The folder that paths count from now."""
    return absolute(Path())


def error_message(error: BaseException) -> str:
    """What an error says, as UTF-8 can carry it: to ask it for that runs people's code once more."""
    try:
        return str(error).encode(errors="replace").decode()
    except BaseException:  # noqa: BLE001  whatever it is, the error is told without its text
        return UNPRINTABLE


def trace_of(error: BaseException, limit: int | None = None) -> str:
    """An error with the places where it was raised, as far as it can be printed."""
    try:
        return "".join(traceback.format_exception(error, limit=limit)).encode(errors="replace").decode()
    except BaseException:  # noqa: BLE001  as above
        return in_words(error)


class RaisedPlainly:
    """What people's code has raised inside of the block is raised as it is, to the caller whose code that was."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, UserCodeError):
            raise plainly(error)


def plainly(error: BaseException) -> BaseException:
    """What is to be raised to the caller whose code may have raised it."""
    if not isinstance(error, UserCodeError):
        return error
    error.error.__suppress_context__ = True  # how it came here is of no use
    return error.error


# --- calling


def call(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What `function` returns. Raises `UserCodeError`."""
    try:
        return function(*arguments, **named)
    except BaseException as error:
        raise _let_in(error) from error


async def awaited(value: Awaitable[T]) -> T:
    """What `value` comes to. Raises `UserCodeError`."""
    began_in = _task_id()
    try:
        return await value
    except BaseException as error:
        if _is_ours(error, began_in):
            raise
        raise _let_in(error) from error


def each(values: Iterable[T]) -> Iterator[T]:
    """The values of an iterable. Raises `UserCodeError`."""
    iterator = call(iter, values)
    while True:
        try:
            value = next(iterator)
        except StopIteration:
            return
        except BaseException as error:
            raise _let_in(error) from error
        yield value


async def each_awaited(values: AsyncIterable[T]) -> AsyncGenerator[T, None]:
    """The values of an iterable that is waited for. Raises `UserCodeError`."""
    iterator, began_in = call(aiter, values), _task_id()
    while True:
        try:
            value = await anext(iterator)
        except StopAsyncIteration:
            return
        except BaseException as error:
            if _is_ours(error, began_in):
                raise
            raise _let_in(error) from error
        yield value


def _let_in(error: BaseException) -> BaseException:
    """What is raised in place of `error`: a Ctrl-C of a person's goes on."""
    if isinstance(error, UserCodeError):
        return error  # code of theirs that is called by code of theirs
    return error if isinstance(error, KeyboardInterrupt) and _may_be_ctrl_c() else UserCodeError(error)


def _may_be_ctrl_c() -> bool:
    """That raises in the main thread, where nobody else answers to it. An event loop that runs there hears of it."""
    if not _is_main_thread() or _is_loop_running():
        return False
    return signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _is_ours(error: BaseException, began_in: int | None) -> bool:
    """Whether it comes from around people's code rather than from it: a scope of ours has ended, or the coroutine is
    closed by whoever finds it, which is not the task that it ran in.
    """
    if isinstance(error, GeneratorExit):
        return _task_id() != began_in
    from anyio import current_effective_deadline, get_cancelled_exc_class  # noqa: PLC0415  see the module's docstring

    return isinstance(error, get_cancelled_exc_class()) and current_effective_deadline() == -math.inf


def _task_id() -> int | None:
    """Of the task that runs here, if any."""
    from anyio import get_current_task  # noqa: PLC0415  as above

    try:
        return get_current_task().id
    except RuntimeError:
        return None


def _is_loop_running() -> bool:
    return "anyio" in sys.modules and _task_id() is not None


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


# --- loading


def load_function(reference: str, called: str) -> Callable[..., Any]:
    """The function behind `FILE.py:FUNCTION`. Raises `UsageError`, which says what it is `called`, if there is none.

    The file is run as `python FILE.py` would (its folder can be imported from), but not under the name `__main__`:
    what starts a worker at its bottom stays quiet.
    """
    file, colon, name = reference.rpartition(":")
    if not colon or not file or not name:
        raise UsageError(f"{called} {reference!r}: write it as FILE.py:FUNCTION")
    path = Path(file)
    if not path.is_file():
        raise UsageError(f"{called} {reference!r}: there is no file {file}")
    function = _member(_import_file(path, f"{called} {reference!r}"), name)
    if function is None:
        raise UsageError(f"{called} {reference!r}: {file} defines no {name}")
    if not callable(function):
        raise UsageError(f"{called} {reference!r}: {name} is not a function")
    return function


def import_function(module: str, name: str, called: str) -> Callable[..., Any]:
    """The function `name` of a module that can be imported. Raises `UsageError`, which begins with `called`."""
    try:
        with _signals_kept():
            function = _member(call(importlib.import_module, module), name)
    except UserCodeError as error:
        raise UsageError(f"{called}: importing {module} failed: {error}") from error.error
    if not callable(function):
        raise UsageError(f"{called}: {module} defines no function {name}")
    return function


def _import_file(path: Path, named: str) -> object:
    module_name = f"{LOADED_PREFIX}{path.stem}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{named}: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[module_name] = module  # dataclasses and pickle look their module up by name
    try:
        with _signals_kept():
            call(spec.loader.exec_module, module)
    except UserCodeError as error:
        sys.modules.pop(module_name, None)
        raise UsageError(f"{named}: importing {path} failed: {error}") from error.error
    return module


def _member(module: object, name: str) -> object:
    """None where there is none, also where a module's own way to look for it fails."""
    try:
        return call(getattr, module, name, None)
    except UserCodeError:
        return None


@contextmanager
def _signals_kept() -> Iterator[None]:
    """What people's modules do to the signals that the program answers to is undone: Ctrl-C would lose results."""
    kept = {number: signal.getsignal(number) for number in _OURS} if _is_main_thread() else {}
    try:
        yield
    finally:
        for number, handler in kept.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
