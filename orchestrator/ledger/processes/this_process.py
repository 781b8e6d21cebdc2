"""What a process has of its own among all that use a ledger on a server: its mark, its clocks, and what it owns.

Nothing below asks the system for any of it. So a simulation can have several processes in one.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from orchestrator.clock import WaryElapsedClock, elapsed_us
from orchestrator.ledger.holder_text import process_name
from orchestrator.ledger.postgres.process_mark import process_mark
from orchestrator.ledger.processes.processes import ProcessName

if TYPE_CHECKING:
    from orchestrator.ledger.processes.shard_owner import ShardOwner


class ThisProcess:
    """One process. The names of its connections end with the `mark`, which is another one after a fork.

    `elapsed` tells what has elapsed on its machine, `wary_clock` makes the clock for whoever must have stopped before
    others go on.
    """

    def __init__(
        self,
        *,
        mark: Callable[[], str] = process_mark,
        elapsed: Callable[[], int] = elapsed_us,
        wary_clock: Callable[[], WaryElapsedClock] = WaryElapsedClock,
    ) -> None:
        self._mark = mark
        self.elapsed = elapsed
        self.wary_clock = wary_clock
        self.owners: dict[str, ShardOwner] = {}
        """What it is on ledgers, by their names: nobody else can tell whether what began it still runs."""

    def called(self, doing: str) -> ProcessName:
        """What it is called while it does that."""
        return ProcessName(process_name(doing), self._mark())


THIS_PROCESS: Final = ThisProcess()
"""The one in which this runs."""
