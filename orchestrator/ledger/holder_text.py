"""Who holds a ledger, and since when, as text for people."""

import os
import platform
from datetime import UTC, datetime
from typing import Final

from orchestrator.errors import LedgerBusyError, UsageError
from orchestrator.settings.parsers.name_parsers import MACHINE_CHARS_MAX
from orchestrator.units import SECOND_US

SINCE: Final = " since "
SINCE_FORMAT: Final = "%Y-%m-%d %H:%M:%S UTC"

OURS: Final = "orchestrator"
"""The names of our commands begin so, and those of our connections to a server."""


class Machine:
    """The one on which this process runs."""

    called = ""
    """By whoever began the process; empty: nobody has said anything."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.called or platform.node().partition(".")[0][:MACHINE_CHARS_MAX]


_HERE: Final = Machine()


def call_machine(name: str) -> None:
    """What people see of this process has that name from now on instead of the machine's."""
    _HERE.called = name


def machine_name() -> str:
    """What people know this machine by."""
    return _HERE.name


def process_name(doing: str = "") -> str:
    """What people find this process by, and what it does, if that is told: `orchestrator serve`."""
    what = doing.removeprefix(OURS).strip()
    return f"process {os.getpid()} on {machine_name()}" + (f" ({what})" if what else "")


def since_then(who: str, at: int) -> str:
    """The text of `who` has held it since `at` (microseconds UTC)."""
    return f"{who}{SINCE}{datetime.fromtimestamp(at / SECOND_US, UTC).strftime(SINCE_FORMAT)}"


def who_and_since(text: str) -> tuple[str, int | None]:
    """The two parts of what `holder` says: who it is, and since when (microseconds UTC); None: it does not tell."""
    who, _, since = text.rpartition(SINCE)
    try:
        begun = datetime.strptime(since.strip(), SINCE_FORMAT).replace(tzinfo=UTC)
    except ValueError:
        return text, None
    return who, int(begun.timestamp()) * SECOND_US


def older_owner_error(what: str, holder: str) -> LedgerBusyError:
    """Says that `holder` works on `what` with an older program, which must end first."""
    return LedgerBusyError(
        f"{what} {holder} is working on this ledger with an older version of the program; stop it, and start it again"
        " with this version"
    )


def left_behind(what: str) -> UsageError:
    """Says that this process holds `what` in an event loop that is closed.

    What worked there was not ended, only left: its connections and its listener are open, and nothing can end them any
    more. Nobody else can go on before the process ends.
    """
    return UsageError(
        f"{what} this program holds it already, in an event loop that was closed before the `async with` block of"
        " its Orchestrator was left: nothing of it goes on, and it lets go with the program only. End the program"
        " (in a notebook, restart the kernel) and run it again; nothing is lost. Leave the block before the loop is"
        " closed, or use orchestrator.map"
    )
