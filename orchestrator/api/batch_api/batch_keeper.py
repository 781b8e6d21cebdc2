"""Carries the batches of the Batch API on, each by the next step that `core.batch_api.posted_batch` names.

What it knows is in the ledger: whoever comes after a kill goes on where that stands.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
import msgspec
from anyio.abc import TaskGroup

from orchestrator.api.batch_api.batch_results import write_batch_files
from orchestrator.api.batch_api.batch_runs import BatchRuns
from orchestrator.core.batch_api.posted_batch import (
    BatchRunStanding,
    PostedBatch,
    PostedError,
    PostedState,
    PostedStep,
    next_posted_step,
)
from orchestrator.core.jobs.lifecycle import unfinished
from orchestrator.errors import StorageError

LOOK_S: Final = 1.0
"""How often to look how the runs of open batches stand."""

IDLE_S: Final = 60.0
"""The same, of batches that another process may have been asked for, where none is open here."""

AT_ONCE: Final = 2
"""So many files are read, or written, at once."""

AGAIN_S: Final = 60.0
"""How long to wait where something could not be written."""

_GONE: Final = PostedError(code="run_deleted", message="The run of this batch was deleted.")


@dataclass(kw_only=True, eq=False)
class BatchKeeper:
    """Carries on those of one ledger."""

    runs: BatchRuns
    _nudged: anyio.Event = field(default_factory=anyio.Event, init=False)
    _busy: set[str] = field(default_factory=set, init=False)
    _places: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(AT_ONCE), init=False)

    def nudge(self) -> None:
        """Somebody has asked for something."""
        self._nudged.set()

    async def serve(self) -> None:
        """Carries them on until cancelled. Raises `StorageError` where the ledger is lost."""
        async with anyio.create_task_group() as tasks:
            while True:
                are_open = await self._look(tasks)
                with anyio.move_on_after(LOOK_S if are_open else IDLE_S):
                    await self._nudged.wait()
                self._nudged = anyio.Event()

    async def _look(self, tasks: TaskGroup) -> bool:
        """Does what comes next for each; whether there are any."""
        ledger = self.runs.files.ledger
        busy = {*self._busy}  # as it is before they are read: what is done meanwhile is not in what was read
        found = await ledger.runs.posted.batches.open()
        idle = [each for each in found if each.id not in busy]
        runs = [each.run for each in idle if each.run is not None]
        standings = await self._standings(runs) if runs else {}
        now = ledger.now()
        for batch in idle:
            step = next_posted_step(batch, standings.get(batch.run or 0), now=now)
            await self._do(tasks, batch, step)
        return bool(found)

    async def _standings(self, runs: list[int]) -> dict[int, BatchRunStanding]:
        """How these runs stand, of which all rows are taken in."""
        ledger = self.runs.files.ledger
        counts, asked = await ledger.runs.counts_by_run(runs), await ledger.runs.asked()
        return {
            run.id: BatchRunStanding(
                is_over=not unfinished(counts.get(run.id, {})),
                is_cancelled=run.id in asked and asked[run.id].controls.cancel,
            )
            for run in await ledger.runs.all(runs)
            if run.accepted
        }

    async def _do(self, tasks: TaskGroup, batch: PostedBatch, step: PostedStep) -> None:
        batches = self.runs.files.ledger.runs.posted.batches
        match step:
            case PostedStep.VALIDATE:
                self._start(tasks, batch, self.runs.validate)
            case PostedStep.BEGIN:
                await batches.move(batch, PostedState.IN_PROGRESS)
            case PostedStep.CANCEL_RUN:
                assert batch.run is not None
                if batch.state is PostedState.IN_PROGRESS:
                    await batches.move(batch, PostedState.FINALIZING, is_late=1)
                await self.runs.cancel(batch.run)
            case PostedStep.FINALIZE:
                if batch.state is PostedState.IN_PROGRESS:
                    await batches.move(batch, PostedState.FINALIZING)
                    self.nudge()
                else:
                    self._start(tasks, batch, self._finalize)
            case PostedStep.GIVE_UP:
                await batches.move(batch, PostedState.FAILED, errors=msgspec.json.encode([_GONE]))
            case PostedStep.END_EMPTY:
                is_cancelled = batch.state is PostedState.CANCELLING
                await batches.move(batch, PostedState.CANCELLED if is_cancelled else PostedState.EXPIRED)
            case PostedStep.WAIT:
                pass

    def _start(self, tasks: TaskGroup, batch: PostedBatch, work: Callable[[PostedBatch], Awaitable[object]]) -> None:
        self._busy.add(batch.id)
        tasks.start_soon(self._done, batch, work)

    async def _done(self, batch: PostedBatch, work: Callable[[PostedBatch], Awaitable[object]]) -> None:
        try:
            async with self._places:
                await work(batch)
        except StorageError as error:
            self.runs.console.warn(f"{batch.id}: {error}; it is tried again")
            await anyio.sleep(AGAIN_S)
        finally:
            self._busy.discard(batch.id)
            self.nudge()

    async def _finalize(self, batch: PostedBatch) -> None:
        if await write_batch_files(self.runs.files, batch):
            self.runs.console.info(f"{batch.id}: its files are written")
