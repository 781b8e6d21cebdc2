"""The two ways out: standard output carries data only (JSON, result lines), standard error everything for people."""

import os
import select
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Final, NoReturn

import msgspec

from orchestrator.cli.output import theme
from orchestrator.core.text.wording import visible, visible_json
from orchestrator.errors import StoppedError, flag_name, with_settings_named
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import ledger_words, with_ledger
from orchestrator.views.json_values import as_printed

_STREAMS: Final = (("stdin", os.O_RDONLY, "r"), ("stdout", os.O_WRONLY, "w"), ("stderr", os.O_WRONLY, "w"))
"""The standard streams, by their numbers."""

_BOLD: Final = "\x1b[1m"
_PLAIN: Final = "\x1b[0m"
_WARNING: Final = "warning:"
_ERROR: Final = "error:"


_ledger_words: Final[list[str]] = []
"""What a command is told so that it finds the ledger that this one is about, where it would not by itself."""


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


def put_data(data: bytes) -> None:
    """Writes JSON, or rows of another format, to standard output: as they are, but on a terminal with all that it would
    obey, or not show, as JSON writes that. Raises as `put` does.
    """
    is_seen = sys.stdout.isatty()
    put(visible_json(data.decode(errors="backslashreplace")).encode() if is_seen else data)


def put_now(data: bytes) -> None:
    """The same at once, for who waits for it."""
    put_data(data)
    flush()


def put_text(text: str) -> None:
    """Writes lines for people to standard output, at once. Raises as `put` does."""
    put(text.encode(sys.stdout.encoding or "utf-8", "replace"))
    flush()


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


def has_reader_left() -> bool:
    """Whether standard output is a pipe that nobody reads any more. One that is closed says so without a write."""
    output = select.poll()
    try:
        output.register(sys.stdout, 0)
    except (OSError, ValueError):  # no file of the system's, as in a test
        return False
    return any(found & select.POLLERR for _, found in output.poll(0))


def put_json(value: object) -> None:
    """Writes `value` to standard output as one line of JSON, its times in ISO 8601 beside. Raises as `put` does."""
    put_now(msgspec.json.encode(as_printed(value)) + b"\n")


@contextmanager
def interruptible() -> Iterator[None]:
    """The first Ctrl-C ends a wait for a person, or for standard input, inside of the block: it stands still in the
    event loop, which could only take notice of it afterwards.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave(code: int) -> NoReturn:
    """Ends the process at once.

    An orderly end would wait for the threads in which functions of the user's run (`local:` endpoints); they cannot be
    stopped, and may take as long as they like. What has to last is in the ledger by now.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(code)


def speak_of(ledger: LedgerAddress | None) -> None:
    """Commands that sentences name are told from now on that they are about this ledger."""
    _ledger_words[:] = () if ledger is None else ledger_words(ledger)


def named(text: str) -> str:
    """`text` with its settings called by their flags, and with the ledger in each command that it names."""
    return with_ledger(with_settings_named(text, flag_name), _ledger_words)


def say(line: str, *, end: str = "\n") -> None:
    """One line for a person, on standard error."""
    _tell(shown(named(line)), end=end)


def pass_on(text: bytes) -> None:
    """What another process has said, on standard error."""
    with suppress(OSError):
        sys.stderr.buffer.write(text)
        sys.stderr.flush()


def headline(line: str) -> None:
    """A line that opens a few others, on standard error."""
    _tell(shown(named(line)), marked=shown(named(line)), style=_BOLD)


def warn(line: str) -> None:
    """One line that the person should not miss, on standard error."""
    _tell(f"{_WARNING} {shown(named(line))}", marked=_WARNING, style=theme.escape(theme.DOUBTFUL))


def complain(message: str) -> None:
    """Why the command ends without having done what it was asked to, on standard error."""
    _tell(f"{_ERROR} {shown(named(message))}", marked=_ERROR, style=theme.escape(theme.BAD, bold=True))


def shown(text: str) -> str:
    """`text` as a terminal may have it: what it would obey, or not show, is written out.

    The names of files and whatever else a message repeats may hold anything.
    """
    return visible(text)


def _tell(line: str, *, end: str = "\n", marked: str = "", style: str = "") -> None:
    """`line`, of which the beginning, `marked`, has a `style`."""
    text = broken(line) if sys.stderr.isatty() else line
    if marked and can_draw(sys.stderr) and not os.environ.get("NO_COLOR"):
        text = f"{style}{text[: len(marked)]}{_PLAIN}{text[len(marked) :]}"
    with suppress(OSError):  # nobody there to read it any more is no reason to stop a run
        print(text, file=sys.stderr, end=end, flush=True)


def broken(text: str, *, width: int | None = None) -> str:
    """`text` broken between words where a line is longer than `width` (None: the terminal's), which would break it
    anywhere. What goes on of an indented line is indented further.
    """
    columns = shutil.get_terminal_size().columns if width is None else width
    return "\n".join(line if len(line) <= columns else _filled(line, columns) for line in text.split("\n"))


def _filled(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip(" "))]
    return textwrap.fill(
        line,
        width,
        subsequent_indent=f"{indent}  " if indent else "",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    )


def can_draw(stream: IO[str]) -> bool:
    """Whether `stream` is a terminal that understands colours and a moving cursor."""
    return stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"


def open_streams() -> None:
    """Puts `/dev/null` in the place of each standard stream that was closed when the program began (`<&-`, a service
    manager that gives none). To be called before anything is opened.

    The next file that is opened would get the number of a closed one: messages for people would be written into the
    ledger, or the event loop gives up, which never closes these numbers.
    """
    for number, (name, flags, mode) in enumerate(_STREAMS):
        if not _is_open(number):
            null = os.open(os.devnull, flags)  # the lowest free number, and that is this one
            assert null == number
            os.set_inheritable(null, True)  # as the others are: it belongs to child processes, too
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace", closefd=False))


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
