"""Every error that leaves a part of the program, with its exit code, divided by what the catcher can do about it.

A message says what happened, where, and what to do. Where a class needs no more than one sentence, its docstring is
the message, so that the two cannot drift apart.

What can be set is named by its key, as `<setting ledger>` or `<setting format=csv>`: whoever shows a text says it as
its reader would write it, a flag on the command line or a keyword of a program.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Final, TypeVar

PROBLEMS_SHOWN_MAX = 20
"""How many problems of an input are printed; the rest is counted."""

LINES_SHOWN_MAX = 3
"""How many of the lines are named that have the same problem."""

_SETTING: Final = re.compile(r"<setting ([a-z][a-z0-9-]*)(?:=([^<>\n]*))?>")


def flag_name(key: str, value: str | None = None) -> str:
    """What the command line calls the setting of that key, with a value where there is one."""
    return f"--{key}" if value is None else f"--{key} {value}"


def keyword_name(key: str, value: str | None = None) -> str:
    """The same for a program."""
    return f"{key.replace('-', '_')}={value or ''}"


def with_settings_named(text: str, name: Callable[[str, str | None], str]) -> str:
    """`text`, with each setting that it names by its key called what `name` makes of that and of its value."""
    return _SETTING.sub(lambda found: name(found[1], found[2]), text) if "<setting " in text else text


class OrchestratorError(Exception):
    """Something went wrong. As text it names settings as a program does."""

    exit_code = 70
    """The exit code of the command line when this error ends it (see docs/reference/exit-codes-and-output.md)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)

    def __str__(self) -> str:
        return with_settings_named(self.message, keyword_name)

    @property
    def message(self) -> str:
        """What went wrong, with settings by their keys."""
        return super().__str__()


class UsageError(OrchestratorError):
    """The command cannot be carried out as it was given; nothing was sent."""

    exit_code = 2


class InputError(UsageError):
    """The input has errors; nothing was sent.

    `problems` holds the first messages, one for all bad lines with the same problem; `total` counts all of them, and
    `told` those that the messages are of: one each, where that is not given. `taken` rows before them are in the run,
    and are sent.
    """

    def __init__(
        self,
        source: str,
        problems: Sequence[str],
        total: int,
        advice: str = "",
        *,
        taken: int = 0,
        told: int | None = None,
    ) -> None:
        self.source = source
        self.problems = tuple(problems[:PROBLEMS_SHOWN_MAX])
        self.total = total
        self.taken = taken
        kept = f"the {taken:,} rows before are in the run" if taken else "nothing was sent"
        lines = [f"{source}: {total} {'problem' if total == 1 else 'problems'}; {kept}", *self.problems]
        if left := total - (len(self.problems) if told is None else told):
            lines.append(f"... and {left} more")
        if advice:
            lines.append(advice)
        super().__init__("\n".join(lines))


class Problems:
    """The bad lines of an input as they are found. Those with the same problem are told as one: a column that is not
    there is one mistake, however many rows lack it.
    """

    def __init__(self) -> None:
        self._lines: dict[str, list[int]] = {}  # by what is wrong: some lines
        self._numbers: dict[str, int] = {}  # and how many there are
        self.total = 0

    def add(self, line: int, text: str) -> None:
        """What is wrong with that line."""
        self.total += 1
        if text not in self._lines:
            if len(self._lines) == PROBLEMS_SHOWN_MAX:
                return
            self._lines[text], self._numbers[text] = [], 0
        self._numbers[text] += 1
        self._lines[text] = sorted((*self._lines[text], line))[:LINES_SHOWN_MAX]

    def error(self, source: str, place_of: Callable[[int], str], advice: str = "", *, taken: int = 0) -> InputError:
        """All of it as an error; `place_of` says where a line is."""
        found = sorted(self._lines.items(), key=lambda item: item[1])
        told = [f"{self._places(lines, text, place_of)}: {text}" for text, lines in found]
        return InputError(source, told, self.total, advice, taken=taken, told=sum(self._numbers.values()))

    def _places(self, lines: Sequence[int], text: str, place_of: Callable[[int], str]) -> str:
        more = self._numbers[text] - len(lines)
        return ", ".join(map(place_of, lines)) + (f" and {more:,} more" if more else "")


class MisfitError(UsageError):
    """A format cannot hold a value; nothing was written."""


class LedgerBusyError(UsageError):
    """Another process is working on this ledger."""

    exit_code = 4


class IntakeBusyError(UsageError):
    """Another process is reading rows for this run."""

    exit_code = 4


class LedgerVersionError(UsageError):
    """The ledger was written by a newer version of this program; upgrade the program."""


class LedgerRetiredError(UsageError):
    """The ledger was copied elsewhere, and goes on there; name that one instead."""

    copied_to = ""
    """Where it is now, as an address."""


class StoppedError(OrchestratorError):
    """Going on is pointless until somebody changes something; everything so far is kept and can be resumed."""

    exit_code = 3
    summary: object = None
    """How far the run had come (a `Summary`), where that is known."""


class NotBegunError(StoppedError):
    """Stopped before anything had begun; nothing was made, and nothing was sent."""

    exit_code = 130


class StorageError(StoppedError):
    """The ledger cannot be written (a full disk, a read-only file); free space or fix permissions, then resume."""


class IntakeLostError(StoppedError):
    """Another process has taken over what was read here; nothing of it is lost or sent twice."""


class LedgerUnavailableError(StorageError):
    """The ledger cannot be used just now (its server is away, its disk is full); that may pass by itself."""

    def __init__(self, found: str | None = None, *, advice: str = "") -> None:
        self.found, self.advice = found, advice
        self.while_waiting = f"{found}; {advice}" if advice else found or type(self).__doc__ or ""
        """What is said of it by who waits, and so need not be told to go on."""

        super().__init__(f"{self.while_waiting}, then resume" if advice else found)

    def copy(self) -> "LedgerUnavailableError":
        """The same, for somebody else who meets it."""
        return LedgerUnavailableError(self.found, advice=self.advice)


class LostCommitsError(StorageError):
    """The database has lost what it had confirmed; waiting cures nothing."""


class DeposedError(StorageError):
    """Another process has taken this ledger over; nothing more is sent or written from here."""


class TookTooLongError(OrchestratorError):
    """The ledger did not answer in time, so the question was ended; try again."""


class DamagedError(OrchestratorError):
    """What the ledger holds of this cannot be unpacked any more: the disk or another program has changed it."""


class Hurdle(StrEnum):
    """Where on the way to a service a request ended."""

    DNS = "dns"
    PROXY = "proxy"
    TLS = "tls"
    TIME_OUT = "time-out"


class NotSent(OrchestratorError):
    """The request never left: the service cannot have seen it, so it may be repeated."""

    hurdle: Hurdle | None = None
    """What was in its way, where that is known."""


class CutShort(NotSent):
    """The request left only in part: nobody can have acted on it, but it may have been counted."""


class Unanswered(OrchestratorError):
    """The request may have left, and no usable answer came: whether it took effect is unknown."""

    hurdle: Hurdle | None = None


RANKS: tuple[type[BaseException], ...] = (StorageError, StoppedError, OrchestratorError)
"""When several tasks failed, the cause: a full disk makes the others fail, not the other way round."""


def leading(error: BaseException, ranks: Sequence[type[BaseException]] = RANKS) -> BaseException:
    """The one exception of a (nested) group that comes first in `ranks`; `error` itself where it is no group."""

    def rank(leaf: BaseException) -> int:
        return next((position for position, kind in enumerate(ranks) if isinstance(leaf, kind)), len(ranks))

    return min(_leaves(error), key=rank)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


def message_of(error: BaseException) -> str:
    """What `error` says, for another message: with settings by their keys."""
    return error.message if isinstance(error, OrchestratorError) else str(error)


E = TypeVar("E", bound=BaseException)


def bare(error: E) -> E:
    """`error`, without the frames that it came through and the errors before it.

    Each frame holds what it worked on: an answer of megabytes, an input. Where the error is kept by one of them, as a
    value or on a connection, that is a circle, and only the collector of cycles, which runs rarely, would free it.
    """
    rest: BaseException | None = error
    while rest is not None:
        rest.__traceback__ = None
        before, rest.__cause__ = rest.__cause__ or rest.__context__, None
        rest.__context__ = None
        rest = before
    return error
