"""Removes the rows of flows that ended longer ago than their pipelines keep them.

It works beside everything else, a short transaction after the other, and rests in between.
"""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Final

import anyio
from anyio.abc import TaskStatus

from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.engine.intake.run_removal import remove_run
from orchestrator.errors import StorageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.intakes import Hold

log = logging.getLogger(__name__)

LOOK_S: Final = 3_600.0
"""How often it is looked for such flows."""

NOTIFICATIONS_MAX: Final = 500
"""So many old notifications are removed by one transaction."""


@dataclass(kw_only=True, eq=False)
class FlowRetention:
    """Of one ledger. `hold` keeps others from taking in for a run while it is removed."""

    ledger: Ledger
    runs: StageRuns
    hold: Hold

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Looks now and then until cancelled."""
        task_status.started()
        while True:
            try:
                await self.run_once()
            except StorageError as error:
                log.warning("rows of old flows could not be removed: %s", error)
            await anyio.sleep(LOOK_S)

    async def run_once(self) -> None:
        """Removes all that may go."""
        now = self.ledger.now()
        for pipeline in await self.ledger.flows.pipelines.all():
            if (keep_us := pipeline.pipeline.keep_us) is None:
                continue
            before = now - keep_us
            for run, name in await self.ledger.flows.outlived_runs.ended_before(pipeline.id, before):
                give_up = partial(self.ledger.flows.outlived_runs.give_up, run, before)
                await remove_run(
                    self.ledger, run, name, give_up=give_up, look_again=self.runs.look_again, hold=self.hold
                )
            # Further ones the next time.
            await self.ledger.flows.outbox.forget(pipeline.id, before, most=NOTIFICATIONS_MAX)
