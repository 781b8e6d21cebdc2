"""What is forgotten of the Batch API: files that have expired, and batches that ended long ago, with their runs.

What a crash cuts short is finished later: a file without a row is swept, and a run that is none any more is cleared by
the next open of the ledger.
"""

from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio

from orchestrator.api.batch_api.file_store import FileStore
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.intake.run_removal import remove_run
from orchestrator.engine.runtime.console import Console
from orchestrator.errors import StorageError
from orchestrator.ledger.posted.posted_batches import OutlivedBatch
from orchestrator.ledger.runs.intakes import Hold

LOOK_S: Final = 60.0
"""How soon a file is gone that has expired."""


@dataclass(kw_only=True, eq=False)
class PostedUpkeep:
    """Of one ledger. `hold` keeps others from taking in for a run while it is removed."""

    files: FileStore
    serving: RunHost
    hold: Hold
    console: Console

    async def serve(self) -> None:
        """Looks now and then until cancelled. Before, it says how much room there is, for those who watch that."""
        is_bound = False
        while True:
            try:
                if not is_bound:
                    await self.files.ledger.runs.posted.files.bound(self.files.settings.storage_bytes_max)
                    is_bound = True
                await self.run_once()
            except StorageError as error:
                self.console.warn(f"old files and batches of the Batch API could not be removed: {error}")
            await anyio.sleep(LOOK_S)

    async def run_once(self) -> None:
        """Removes all that may go. Raises `StorageError`."""
        await self.files.tidy()
        ledger = self.files.ledger
        for batch in await ledger.runs.posted.batches.outlived(ledger.now() - self.files.settings.keep_batches_us):
            await self._forget(batch)

    async def _forget(self, batch: OutlivedBatch) -> None:
        """A batch, unless somebody works on its run."""
        ledger = self.files.ledger
        forget = partial(ledger.runs.posted.batches.forget, batch)
        if batch.run is None or batch.run_name is None:
            await forget()
            return
        await remove_run(
            ledger, batch.run, batch.run_name, give_up=forget, look_again=self.serving.look_again, hold=self.hold
        )
