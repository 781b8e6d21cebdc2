"""Carries out one command: loads the program, runs it, and turns what happened into messages and an exit code."""

import ctypes
import gc
import os
import shlex
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, NoReturn, TypeVar

import typer

from orchestrator.cli.framework import flags
from orchestrator.cli.framework.crash_reports import (
    DEFECT_EXIT_CODE,
    STARVED,
    STARVED_EXIT_CODE,
    defect_message,
    is_starved,
    leading_failure,
    write_crash_report,
)
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.raised_workers import tell_raised
from orchestrator.cli.output import streams
from orchestrator.errors import OrchestratorError, UsageError
from orchestrator.settings import command_flags, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress, folder_of
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT
from orchestrator.units import MIB

T = TypeVar("T")

GC_THRESHOLD: Final = 100_000
"""How many more values than before there must be until the collector looks for cycles; Python's own number is 700.

As many as there are between two commits, and more: at 20,000 it looked through all of them four times a second, found
nothing, and took a twelfth of the processor time (measured)."""

LARGE_BLOCK_BYTES: Final = MIB
"""Blocks of memory from this size on come from the system, and go back to it as soon as they are free."""

_M_MMAP_THRESHOLD: Final = -3
_M_TRIM_THRESHOLD: Final = -1

INTERRUPTED_EXIT_CODE: Final = 130

WRITING_EXIT_CODE: Final = 3
"""A results pipe whose reader left: everything is in the ledger, and the command can be given again."""


Work = Callable[[], Awaitable[int | None]]
"""What a command does; it returns the exit code, None for 0."""


@contextmanager
def exit_if_refused() -> Iterator[None]:
    """Ends the command where the block raises `UsageError`, with its message and its exit code."""
    try:
        yield
    except UsageError as error:
        raise typer.Exit(explain(error)) from None


class Understood(NamedTuple, Generic[T]):
    """What the flags of a command that works on a ledger come to."""

    asked: T
    choices: Choices
    as_json: bool
    quiet: bool


def understood(given: Flags, prepare: Callable[[Choices], T]) -> Understood[T]:
    """What `prepare` makes of the flags, the environment and the file; ends the command where they are refused."""
    with exit_if_refused():
        choices = choose(given, os.environ)
        asked = prepare(choices)
        return Understood(asked, choices, choices.is_on(command_flags.JSON), choices.is_on(command_flags.QUIET))


def at_ledger(
    json: str | None, *settings: Setting[Any], tells_raised: bool = True, **own: Any
) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Makes a command of an async function of its own flags, the `ledger` and, where it has such parameters, `as_json`
    and `choices`. The command has the flags of `settings`, too, of which those are `own` that mean something else here
    (see `also`); `json` is what its `--json` prints, None for no such flag. Not `tells_raised`: it tells of workers
    that are paid still itself.
    """
    shared = {**own, **flags.flags_of(*settings, run_request.LEDGER, command_flags.CONFIG), **own}
    if json is not None:
        shared["json"] = flags.flag(command_flags.JSON, json)
    return flags.also(partial(carry_out_at_ledger, tells_raised=tells_raised), **shared)


def carry_out_at_ledger(given: Flags, command: Callable[..., Awaitable[int | None]], *, tells_raised: bool) -> NoReturn:
    """Everything between the flags and the exit code of a command about the ledger that was chosen."""
    with exit_if_refused():
        choices = choose(given, os.environ)
    ledger, as_json = choices.ledger, choices.is_on(command_flags.JSON)

    async def work() -> int | None:
        code = await command(choices, ledger=ledger, as_json=as_json)
        if tells_raised and not as_json:
            await tell_raised(ledger)
        return code

    raise typer.Exit(execute(work, ledger=ledger))


def execute(work: Work, *, ledger: LedgerAddress | None = None, needs: str | None = None) -> int:
    """Does `work` on an event loop and returns the exit code: its own, or that of the error which ended it.

    `needs` is the module of what a long command does: it is loaded before the command begins.
    """
    streams.speak_of(ledger)
    try:
        _load(needs)
        import anyio

        return anyio.run(work, backend_options={"use_uvloop": find_spec("uvloop") is not None}) or 0
    except BaseException as error:  # noqa: BLE001  this is where every exception ends
        return explain(error, ledger)


def _load(needs: str | None) -> None:
    """Imports `needs`, and has the collector of cycles look at new values only, and at those more rarely.

    A run makes millions of small values that no cycle holds; at the default threshold looking for cycles among them was
    a fifth of the processor time of a whole run, and looking through what is loaded anyway a twentieth (measured).
    """
    give_back_large_blocks()
    gc.disable()
    try:
        if needs is not None:
            import_module(needs)
    finally:
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD)
        gc.enable()


def give_back_large_blocks() -> None:
    """Has glibc keep no large block for later; other C libraries do what they do.

    By itself it takes blocks of up to 32 MB from its heap once one of that size was freed, and small values settle
    between them: a run with outputs of megabytes grew from 130 to 300 MB that nobody used (measured).
    """
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, 2 * LARGE_BLOCK_BYTES)


def explain(error: BaseException, ledger: LedgerAddress | None = None) -> int:
    """Tells the user about `error`; returns the exit code. `SystemExit` is not ours and goes on."""
    match leading_failure(error):
        case SystemExit() as cause:
            raise cause
        case OrchestratorError() as cause:
            streams.complain(cause.message)
            return cause.exit_code
        case KeyboardInterrupt():
            return INTERRUPTED_EXIT_CODE
        case BaseException(__context__=KeyboardInterrupt()):  # a signal hit the closing of the event loop
            return INTERRUPTED_EXIT_CODE
        case streams.ReaderLeftError():
            return 0
        case BrokenPipeError():
            words = [] if ledger is None or ledger == LEDGER_DEFAULT else run_request.LEDGER.words(ledger)
            command = shlex.join(["orchestrator", "results", "NAME", *words])
            streams.complain(f"nobody reads the pipe, or not to its end; all of it is in the ledger: {command}")
            return WRITING_EXIT_CODE
        case cause:
            return _explain_unforeseen(cause, error, ledger)


def _explain_unforeseen(cause: BaseException, error: BaseException, ledger: LedgerAddress | None) -> int:
    if is_starved(cause):
        streams.complain(STARVED)
        return STARVED_EXIT_CODE
    folders = (*([folder_of(ledger)] if ledger else []), Path())
    streams.complain(defect_message(cause, write_crash_report(error, folders, os.environ)))
    return DEFECT_EXIT_CODE


LOOK_S: Final = 0.5
"""How often to see whether anybody still reads, while there is nothing to write."""


async def while_read(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns. Raises what it raises, and `ReaderLeftError` once nobody reads standard output any more."""
    import anyio

    async def leave_when_nobody_reads() -> None:
        while not streams.has_reader_left():  # noqa: ASYNC110  the system has no event for it
            await anyio.sleep(LOOK_S)
        raise streams.ReaderLeftError

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(leave_when_nobody_reads)
            result = await work()
            group.cancel_scope.cancel()
    except BaseExceptionGroup as failures:
        raise leading_failure(failures) from None
    return result
