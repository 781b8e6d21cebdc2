"""Every error that leaves a part of the program, divided by what the catcher can do about it.

A message says what happened, where, and what to do. Where a class needs no more than one sentence, its docstring is
the message, so that the two cannot drift apart.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum

PROBLEMS_SHOWN_MAX = 20
"""How many bad lines of an input are printed; the rest is counted."""


class OrchestratorError(Exception):
    """Something went wrong."""

    exit_code = 70
    """The exit code of the command line when this error ends it (see docs/reference.md)."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or type(self).__doc__)


class UsageError(OrchestratorError):
    """The command cannot be carried out as it was given; nothing was sent."""

    exit_code = 2


class InputError(UsageError):
    """The input has errors; nothing was sent.

    `problems` holds the first messages, one for each bad line; `total` counts all of them. `taken` rows before them are
    in the run, and are sent.
    """

    def __init__(self, source: str, problems: Sequence[str], total: int, advice: str = "", *, taken: int = 0) -> None:
        self.source = source
        self.problems = tuple(problems[:PROBLEMS_SHOWN_MAX])
        self.total = total
        self.taken = taken
        kept = f"the {taken:,} rows before are in the run" if taken else "nothing was sent"
        lines = [f"{source}: {total} {'problem' if total == 1 else 'problems'}; {kept}", *self.problems]
        if total > len(self.problems):
            lines.append(f"... and {total - len(self.problems)} more")
        if advice:
            lines.append(advice)
        super().__init__("\n".join(lines))


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


class StoppedError(OrchestratorError):
    """Going on is pointless until somebody changes something; everything so far is kept and can be resumed."""

    exit_code = 3
    summary: object = None
    """How far the run had come (a `Summary`), where that is known."""


class StorageError(StoppedError):
    """The ledger cannot be written (a full disk, a read-only file); free space or fix permissions, then resume."""


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
