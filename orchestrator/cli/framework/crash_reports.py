"""From an exception to what the user reads and the exit code. A traceback is for a defect only, and goes to a file."""

import errno
import os
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from orchestrator.cli.output.streams import ReaderLeftError
from orchestrator.errors import RANKS, leading
from orchestrator.settings.words_and_defaults import SECRET_VARIABLES

DEFECT_EXIT_CODE: Final = 70

STARVED_EXIT_CODE: Final = 3
STARVED: Final = (
    "the system gives no more memory or no more threads (ulimit, a container's limits); everything so far is in the"
    " ledger: give it more, then the same command again"
)

_WORDS_OF_WANT: Final = ("can't start new thread", "failed to map segment", "Cannot allocate memory")

KEY_CHARS_MIN: Final = 16
"""What is shorter is taken for a word; the service's keys are three times as long."""

_RANKS: Final = (*RANKS, MemoryError, KeyboardInterrupt, ReaderLeftError, BrokenPipeError)
"""When several tasks failed, the cause: a full disk makes the others fail, not the other way round."""


def leading_failure(error: BaseException) -> BaseException:
    """The one exception of a (nested) group that says most to the user; `error` itself where it is no group."""
    return leading(error, _RANKS)


def is_starved(error: BaseException) -> bool:
    """Whether the system refused memory or a thread: no defect, wherever it happened."""
    match error:
        case MemoryError() | OSError(errno=errno.ENOMEM):
            return True
        case RuntimeError() | ImportError():  # of these two, only the words tell
            return any(words in str(error) for words in _WORDS_OF_WANT)
        case _:
            return False


def write_crash_report(error: BaseException, folders: Iterable[Path], environment: Mapping[str, str]) -> Path | None:
    """Writes the traceback of `error`, without the values of variables and without the API key, to a new file.

    It lands in the first of `folders` that takes it; returns where, or None.
    """
    text = "".join(traceback.TracebackException.from_exception(error, capture_locals=False).format())
    for variable, value in environment.items():
        key = value.strip()
        if key and (variable in SECRET_VARIABLES or _may_be_key(key)):
            text = text.replace(key, f"[{variable}]")
    for folder in folders:
        path = folder / f"orchestrator-crash-{os.getpid()}.log"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
        except OSError:
            continue
        return path
    return None


def _may_be_key(value: str) -> bool:
    """Whether a variable of any name may hold an API key, as a profile's does: it is no word, and no path."""
    return len(value) >= KEY_CHARS_MIN and value.isascii() and not set(value) & set(" /\n")


def defect_message(error: BaseException, report: Path | None) -> str:
    """What the user reads about an exception that nobody foresaw."""
    where = f"the traceback is in {report}" if report else "the traceback could not be written anywhere"
    return f"{type(error).__name__}: this is a defect of orchestrator, please report it; {where}"
