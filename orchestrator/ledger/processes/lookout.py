"""What a process sees of the others of a ledger on a server, and what it does about those that it sees no more."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.core.ownership.beat_watch import BeatWatch
from orchestrator.ledger.postgres.server_errors import LOCK_REFUSED
from orchestrator.ledger.processes.leases import LedgerSighting
from orchestrator.ledger.processes.owners_line import OwnersLine
from orchestrator.ledger.processes.processes import Process

log = logging.getLogger(__name__)

LOOK_S: Final = 0.25
"""How often whoever waits for one that may be gone looks."""


class Lookout:
    """Of one process, by `line`. `elapsed` tells its time. Whoever shares the ledger looks `with_needs`: tables of an
    older program do not tell of them.
    """

    def __init__(self, line: OwnersLine, elapsed: Callable[[], int], *, with_needs: bool = False) -> None:
        self._line = line
        self._with_needs = with_needs
        self._elapsed = elapsed
        self._watch = BeatWatch()
        self._latest: Mapping[int, Process] = {}

    async def look(self, me: int | None) -> LedgerSighting:
        """How the ledger is found once each process other than `me` is declared dead whose beat stands still, but for
        those that cannot be yet. Raises what the driver does.
        """
        seen = await self._seen()
        if any(map(self._has_gone_back, seen.processes.values())):
            log.error("a beat has gone back: the server has lost what it had confirmed")
            async with self._line.asking() as asked:
                await asked.processes.note_loss()
            seen = await self._seen()
        self._latest = seen.processes
        self._watch.saw(
            (each.latest_beat for each in seen.processes.values() if each.id != me), received_at=self._elapsed()
        )
        silent = self._watch.silent(self._elapsed())
        for beat in silent:
            await self._declare_dead(seen.processes[beat.process])
        return await self._seen() if silent else seen

    async def _declare_dead(self, silent: Process) -> None:
        """Whoever is to be next does not wait for this one's row: it may be the one that holds it, frozen in the midst
        of the same.
        """
        try:
            async with self._line.asking() as asked:
                if await asked.processes.declare_dead(silent):
                    log.warning("%s beats no more, and has nothing any more", silent.text)
        except Exception as error:
            if getattr(error, "sqlstate", None) != LOCK_REFUSED:
                raise
            log.info("%s beats no more, and cannot be declared dead yet: %s", silent.text, error)

    def _has_gone_back(self, process: Process) -> bool:
        before = self._latest.get(process.id)
        return before is not None and before.mark == process.mark and before.beat > process.beat

    async def _seen(self) -> LedgerSighting:
        try:
            async with self._line.asking() as asked:
                return await asked.leases.sighting(with_needs=self._with_needs)
        except BaseException:
            self._watch = BeatWatch()  # who could not be asked may not have been able to beat either
            raise
