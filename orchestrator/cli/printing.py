"""The two ways out: standard output carries data only (JSON, result lines), standard error everything for people."""

import os
import sys
from contextlib import suppress
from typing import IO, NoReturn

import msgspec

from orchestrator.errors import StoppedError


class ReaderLeftError(Exception):
    """Whoever read our standard output has enough of it (`| head`)."""


class UnwritableError(StoppedError):
    """Standard output takes nothing (a full disk)."""


def put(data: bytes) -> None:
    """Writes to standard output. Raises `ReaderLeftError` and `UnwritableError`."""
    try:
        sys.stdout.buffer.write(data)
    except OSError as error:
        raise _given_up(error) from error


def flush() -> None:
    """Hands on what `put` still holds. Raises `ReaderLeftError` and `UnwritableError`."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _given_up(error) from error


def _given_up(error: OSError) -> ReaderLeftError | UnwritableError:
    # Python flushes standard output once more at exit, and would complain then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return ReaderLeftError()
    return UnwritableError(
        f"standard output cannot be written ({error.strerror}); what it was to show is cut off, what was sent is sent"
    )


def put_json(value: object) -> None:
    """Writes `value` to standard output as one line of JSON. Raises as `put` does."""
    put(msgspec.json.encode(value) + b"\n")
    flush()


def leave(code: int) -> NoReturn:
    """Ends the process at once.

    An orderly end would wait for the threads in which functions of the user's run (`local:` endpoints); they cannot be
    stopped, and may take as long as they like. What has to last is in the ledger by now.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def say(line: str, *, end: str = "\n") -> None:
    """One line for a person, on standard error. Nobody there to read it any more is no reason to stop a run."""
    with suppress(OSError):
        print(line, file=sys.stderr, end=end, flush=True)


def headline(line: str) -> None:
    """A line that opens a few others, on standard error."""
    say(_coloured(line, "1"))


def warn(line: str) -> None:
    """One line that the person should not miss, on standard error."""
    say(f"{_coloured('warning:', '33')} {line}")


def complain(message: str) -> None:
    """Why the command ends without having done what it was asked to, on standard error."""
    say(f"{_coloured('error:', '1;31')} {message}")


def _coloured(word: str, code: str) -> str:
    return f"\x1b[{code}m{word}\x1b[0m" if can_draw(sys.stderr) and not os.environ.get("NO_COLOR") else word


def can_draw(stream: IO[str]) -> bool:
    """Whether `stream` is a terminal that understands colours and a moving cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
